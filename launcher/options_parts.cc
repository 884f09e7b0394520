// The options that several sub-commands share, and how a sub-command is put together from them.
#include "launcher/options_parts.h"

#include "base/error.h"
#include "comm/algorithm_table.h"
#include "comm/emulation.h"

namespace shardlm {

Table section(const std::string& heading, Table options) {
  for (OptionSpec& option : options) option.section = heading;
  return options;
}

CommandTable command(std::string name, std::string summary, std::initializer_list<Table> sections) {
  CommandTable table{std::move(name), std::move(summary), {}};
  for (const Table& options : sections) {
    table.options.insert(table.options.end(), options.begin(), options.end());
  }
  for (OptionSpec& option : table.options) {
    if (option.group.empty()) option.group = option.name;
  }
  return table;
}

namespace {

OptionSpec verbosity_option(std::string name, std::string help, Verbosity level,
                            Verbosity& target) {
  OptionSpec option{.name = std::move(name), .value = {}, .help = std::move(help)};
  option.kind = ValueKind::switch_;
  option.values = 0;
  option.group = "verbosity";
  option.store = [level, &target](Words words, const std::string& where) {
    target = parse_switch(words[0], where) ? level : Verbosity::normal;
  };
  return option;
}

}  // namespace

Table shared_table(SharedOptions& o) {
  return section(
      "Reports",
      {path_option("config", "FILE", "YAML file of options; flags override it", o.config),
       switch_option("json", "one JSON object on standard output, nothing else there", o.json),
       verbosity_option("verbose", "more messages on standard error", Verbosity::verbose,
                        o.verbosity),
       verbosity_option("quiet", "errors only on standard error", Verbosity::quiet, o.verbosity)});
}

OptionSpec model_option(std::string& model) {
  return path_option("model", "DIR", "folder with config.json, weights and tokenizer files", model);
}

OptionSpec dtype_option(DTypeChoice& target) {
  return choice_option("dtype", "type of the weights in memory", target,
                       {"f32", "bf16", "f16", "int8", "int4"});
}

OptionSpec kv_dtype_option(KvDTypeChoice& target) {
  return choice_option("kv-dtype",
                       "type of keys and values; auto: as --dtype, f16 for int8 and int4", target,
                       {"auto", "f32", "bf16", "f16", "int8"});
}

OptionSpec reduction_option(ReductionChoice& target) {
  return choice_option("reduction", "sums over ranks; exact: the same bits on any ranks", target,
                       {"ordered", "exact"});
}

namespace {

OptionSpec compute_option(ComputeChoice& target) {
  return choice_option("compute", "none: bench's messages without arithmetic", target,
                       {"normal", "none"});
}

OptionSpec graphs_option(std::optional<bool>& target) {
  return optional_switch("graphs", "record decoding steps on a GPU and replay them", "on", target);
}

}  // namespace

Table engine_table(EngineOptions& o) {
  constexpr IntegerRange kThreads{0, 4096};
  return section(
      "Model and ranks",
      {model_option(o.model),
       integer_option("threads", "compute threads of a rank; 0: as many as its cores", o.threads,
                      kThreads),
       choice_option("comm", "how ranks sum their parts", o.comm,
                     {"auto", "shm", "mpi", "nccl", "ipc", "staged", "none"}),
       seconds_option("timeout", "how long a rank waits for another one in a step", o.timeout_s),
       seconds_option("load-timeout", "the same while the model is loaded", o.load_timeout_s),
       integer_option("prefill-chunk", "most prompt tokens in one step", o.prefill_chunk, kFromOne),
       choice_option("backend", "where a rank computes", o.backend, {"auto", "cpu", "cuda"}),
       dtype_option(o.dtype), kv_dtype_option(o.kv_dtype), reduction_option(o.reduction),
       compute_option(o.compute), graphs_option(o.graphs),
       switch_option("allow-shared-gpu", "several ranks may share a GPU: for tests, slow",
                     o.allow_shared_gpu)});
}

OptionSpec checked_option(std::string name, std::string help, std::string value,
                          std::string& target, std::function<void(const std::string&)> check) {
  OptionSpec option =
      value_option(std::move(name), std::move(value), std::move(help), ValueKind::text);
  option.default_text = target.empty() ? "none" : target;
  option.store = [&target, check = std::move(check)](Words words, const std::string& where) {
    in_option(where, [&] { check(words[0]); });
    target = words[0];
  };
  return option;
}

void check_allreduce(const std::string& text) {
  if (text != "auto" && text != "table") parse_algorithm_table(text);
}

Table communication_table(CommunicationOptions& o) {
  return section(
      "Communication",
      {checked_option("allreduce", "all-reduce by site, phase and size (docs/communication.md)",
                      "auto|table|RULES", o.allreduce, check_allreduce),
       path_option("allreduce-table", "FILE", "what shardlm tune has measured", o.table),
       choice_option("wire", "type of an all-reduce's elements on their way", o.wire,
                     {"f32", "bf16", "f16", "int8"}),
       choice_option("overlap", "of a prefill's all-reduces with its arithmetic", o.overlap,
                     {"none", "poll", "thread"}),
       checked_option("emulate", "as over a slower network: latency_us=100,gbit=1,...", "NETWORK",
                      o.emulate, [](const std::string& text) { parse_emulation(text); }),
       switch_option("check-collectives", "compare each call over the ranks before it",
                     o.check_collectives)});
}

Table observe_table(ObserveOptions& o) {
  return section(
      "Communication, seen",
      {switch_option("comm-report", "say at the end where the time of the collectives went",
                     o.report),
       switch_option("per-layer", "a row a layer in that report", o.per_layer),
       path_option("trace", "FILE", "write a timeline of all ranks (Chrome, Perfetto)", o.trace),
       switch_option("live", "a line a step: computing, waiting, moving", o.live),
       integer_option("comm-log", "calls that a rank remembers; 0: records none", o.log,
                      {0, 1 << 28})});
}

OptionSpec shape_option(std::string& target) {
  OptionSpec option =
      value_option("shape", "SHAPE", "made-up weights: gpt2-xl, n_layer=6,...", ValueKind::text);
  option.group = "model";  // in the place of --model
  option.store = [&target](Words words, const std::string& where) {
    if (words[0].empty()) {
      fail(ExitCode::usage, {.expected = "a shape", .found = "an empty text", .where = where});
    }
    target = words[0];
  };
  return option;
}

}  // namespace shardlm
