#include "launcher/options_check.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "comm/algorithm_table.h"
#include "launcher/backend_options.h"
#include "launcher/bench_options.h"
#include "launcher/model_shape.h"

namespace shardlm {
namespace {

void need(bool given, const std::string& command, const std::string& expected) {
  if (given) return;
  fail(ExitCode::usage, {.expected = expected,
                         .found = "none",
                         .where = "shardlm " + command,
                         .remedy = "shardlm " + command + " --help lists the options"});
}

void need_model(const std::string& model, const std::string& command) {
  need(!model.empty(), command, "--model DIR");
}

void refuse_both(bool one, bool other, const std::string& command, const std::string& names) {
  if (!one || !other) return;
  fail(ExitCode::usage, {.what = names + " contradict each other",
                         .where = "shardlm " + command,
                         .remedy = "give one"});
}

bool is_standard_input(const PromptSource& source) {
  return source.kind == PromptSource::Kind::standard_input;
}

bool rounds(const CommunicationOptions& o) {
  if (o.wire != WireFormat::f32) return true;
  if (o.allreduce == "auto" || o.allreduce == "table") return false;
  const AlgorithmTable table = parse_algorithm_table(o.allreduce);
  return std::any_of(table.rules().begin(), table.rules().end(),
                     [](const AllReduceRule& rule) { return rule.choice.wire != WireFormat::f32; });
}

// All-reduces that contradict each other.
void check_sums(const EngineOptions& options) {
  const CommunicationOptions& o = options.communication;
  if (options.reduction == ReductionChoice::exact && rounds(o)) {
    fail(ExitCode::usage,
         {.what = "--reduction exact",
          .expected = "messages of f32, which nothing rounds",
          .found = fmt::format("--allreduce {} --wire {}", o.allreduce, name(o.wire)),
          .remedy = "leave the wire format out, or give up exact sums"});
  }
  if (o.allreduce == "table" && (o.wire != WireFormat::f32 || options.comm == CommChoice::mpi)) {
    fail(ExitCode::usage,
         {.what = "--allreduce table",
          .expected = "--wire f32 and not --comm mpi, as shardlm tune measures",
          .found = fmt::format("--wire {} --comm {}", name(o.wire), comm_name(options.comm)),
          .remedy = "use auto, or rules"});
  }
}

// What cannot work on the back end that is asked for by name; of auto more is known later.
void check_backend(const EngineOptions& options) {
  check_sums(options);
  if (options.backend == BackendChoice::cpu) check_fit(options, BackendKind::cpu, "");
  if (options.backend == BackendChoice::cuda) check_fit(options, BackendKind::cuda, "");
}

// Without arithmetic there is no text, no score and no activation: only the messages of a
// benchmark, and those need no weights.
void refuse_no_compute(const EngineOptions& options, const std::string& command) {
  if (options.compute == ComputeChoice::normal) return;
  fail(ExitCode::usage, {.what = "--compute none",
                         .expected = "bench with --shape",
                         .found = command,
                         .where = "shardlm " + command,
                         .remedy = "use shardlm bench --shape SHAPE, or --compute normal"});
}

}  // namespace

void check_complete(const GenerateOptions& options) {
  need_model(options.engine.model, "generate");
  refuse_no_compute(options.engine, "generate");
  check_backend(options.engine);
  need(!options.prompts.empty(), "generate",
       "a prompt: --prompt TEXT, --prompt-ids 1,2,3, --prompt-file FILE, or - for standard input");
  if (std::count_if(options.prompts.begin(), options.prompts.end(), is_standard_input) > 1) {
    fail(ExitCode::usage, {.what = "standard input is read twice",
                           .where = "shardlm generate",
                           .remedy = "give one -"});
  }
  refuse_both(options.shared.json, options.stream.value_or(false), "generate",
              "--json and --stream");
}

void check_complete(const ScoreOptions& options) {
  need_model(options.engine.model, "score");
  refuse_no_compute(options.engine, "score");
  check_backend(options.engine);
  const bool empty_text = options.text.kind == PromptSource::Kind::text;
  need(!empty_text, "score",
       "a text: --text-file FILE, --prompt-ids 1,2,3, or - for standard input");
}

void check_complete(const TokenizeOptions& options) {
  need_model(options.model, "tokenize");
  refuse_both(options.shared.json, options.json_lines, "tokenize", "--json and --json-lines");
  refuse_both(options.text.has_value(), options.json_lines, "tokenize", "--text and --json-lines");
}

void check_complete(const DetokenizeOptions& options) {
  need_model(options.model, "detokenize");
  refuse_both(options.shared.json, options.json_lines, "detokenize", "--json and --json-lines");
  refuse_both(options.ids.has_value(), options.json_lines, "detokenize", "ids and --json-lines");
}

void check_complete(const PlanOptions& options) {
  need_model(options.model, "plan");
  need(options.ranks > 0, "plan", "--ranks N");
}

void check_complete(const DumpOptions& options) {
  if (options.diff) {
    const bool runs = !options.prompt_ids.empty() || !options.out.empty() || options.stats;
    refuse_both(true, runs, "dump", "--diff and --prompt-ids, --out or --stats");
    if (options.tolerance < 0) {
      fail(ExitCode::usage, {.expected = "a number of at least 0",
                             .found = std::to_string(options.tolerance),
                             .where = "--tolerance"});
    }
    return;
  }
  need_model(options.engine.model, "dump");
  refuse_no_compute(options.engine, "dump");
  check_backend(options.engine);
  need(!options.prompt_ids.empty(), "dump", "--prompt-ids 1,2,3");
  need(!options.out.empty() || options.stats, "dump", "--out FILE or --stats, or both");
  if (options.tolerance != DumpOptions{}.tolerance) {
    fail(ExitCode::usage, {.what = "has no effect without --diff", .where = "--tolerance"});
  }
}

void check_complete(const DoctorOptions& options) {
  refuse_no_compute(options.engine, "doctor");
  check_backend(options.engine);
  if (options.engine.model.empty() && options.kv_tokens != 0) {
    fail(ExitCode::usage, {.what = "has no effect without --model", .where = "--kv-tokens"});
  }
}

namespace {

void refuse_json_beside(BenchFormat format, bool json, const std::string& command) {
  const bool other =
      format == BenchFormat::csv || format == BenchFormat::jsonl || format == BenchFormat::md;
  refuse_both(json, other, command, "--json and another --format");
}

void need_share(double share, const std::string& where) {
  if (share >= 0 && share <= 1) return;
  fail(ExitCode::usage,
       {.expected = "a number from 0 to 1", .found = fmt::format("{:g}", share), .where = where});
}

}  // namespace

void check_complete(const BenchOptions& options) {
  const bool shape = !options.shape.empty();
  need(shape || !options.engine.model.empty(), "bench", "--model DIR or --shape SHAPE");
  if (shape) parse_shape(options.shape, "--shape");
  if (!shape) refuse_no_compute(options.engine, "bench with --model");
  const auto none = [](const std::vector<std::int64_t>& list) {
    return std::all_of(list.begin(), list.end(), [](std::int64_t n) { return n == 0; });
  };
  need(!none(options.prompt) || !none(options.generate), "bench",
       "something to measure: a number above 0 in --prompt or --generate");
  refuse_json_beside(options.format, options.shared.json, "bench");
  need_share(options.ci_width, "--ci-width");
  for (const EngineOptions& engine : bench_engines(options)) check_backend(engine);
}

void check_complete(const CollOptions& options) {
  refuse_json_beside(options.format, options.shared.json, "bench coll");
  need_share(options.ci_width, "--ci-width");
}

void check_complete(const TuneOptions&) {}

void check_complete(const VersionOptions&) {}

}  // namespace shardlm
