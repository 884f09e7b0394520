#include "launcher/bench_options.h"

#include "base/error.h"
#include "comm/algorithm_table.h"
#include "comm/emulation.h"
#include "launcher/options_parts.h"

namespace shardlm {
namespace {

// The engine's options with lists in the places of two.
Table bench_engine_table(BenchOptions& o) {
  Table table = engine_table(o.engine);
  for (OptionSpec& option : table) {
    if (option.name == "threads") {
      option = listed(std::move(option), "N,...", o.engine.threads, o.threads);
    } else if (option.name == "dtype") {
      option = listed(std::move(option), "TYPE,...", o.engine.dtype, o.dtypes);
    }
  }
  return table;
}

// Rules hold commas, so semicolons part them; and the option may be given several times.
OptionSpec allreduces_option(std::vector<std::string>& target) {
  OptionSpec option = value_option("allreduce", "auto|table|RULES;...",
                                   "all-reduces, crossed with the lists", ValueKind::text);
  option.default_text = "auto";
  option.store = [&target](Words words, const std::string& where) {
    std::string_view left = words[0];
    while (true) {
      const std::string one(left.substr(0, left.find(';')));
      in_option(where, [&] { check_allreduce(one); });
      target.push_back(one);
      if (left.size() == one.size()) return;
      left.remove_prefix(one.size() + 1);
    }
  };
  return repeating(std::move(option));
}

Table bench_communication_table(BenchOptions& o) {
  Table table = communication_table(o.engine.communication);
  for (OptionSpec& option : table) {
    if (option.name != "allreduce") continue;
    const std::string heading = option.section;
    option = allreduces_option(o.allreduces);
    option.section = heading;
  }
  return table;
}

OptionSpec format_option(BenchFormat& target) {
  return choice_option("format", "of the results", target, {"table", "csv", "json", "jsonl", "md"});
}

constexpr IntegerRange kTimes{1, 1'000'000};

// The words of a list, each of which `check` must like.
OptionSpec words_option(std::string name, std::string value, std::string help,
                        std::vector<std::string>& target,
                        std::function<void(const std::string&)> check) {
  OptionSpec option =
      value_option(std::move(name), std::move(value), std::move(help), ValueKind::list);
  for (const std::string& word : target) {
    option.default_text += (option.default_text.empty() ? "" : ",") + word;
  }
  option.store = [&target, check = std::move(check)](Words words, const std::string& where) {
    target = split_list(words[0], where);
    for (const std::string& word : target) in_option(where, [&] { check(word); });
  };
  return option;
}

// A rounded sum is not what it is compared with.
void check_unrounded(const std::string& word) {
  if (parse_choice(word).wire == WireFormat::f32) return;
  fail(ExitCode::usage, {.expected = "an algorithm without a wire format", .found = word});
}

void check_op(const std::string& word) {
  parse_choice(word, {"all_reduce", "broadcast", "gather", "barrier"}, "an operation");
}

OptionSpec modes_option(std::vector<CollMode>& target) {
  OptionSpec option = value_option("mode", "isolated|back-to-back,...",
                                   "a barrier before each call, or none", ValueKind::list);
  option.default_text = "isolated";
  option.store = [&target](Words words, const std::string& where) {
    target.clear();
    for (const std::string& word : split_list(words[0], where)) {
      target.push_back(
          static_cast<CollMode>(parse_choice(word, {"isolated", "back-to-back"}, where)));
    }
  };
  return option;
}

}  // namespace

std::vector<EngineOptions> bench_engines(const BenchOptions& o) {
  std::vector<std::string> allreduces = o.allreduces;
  if (allreduces.empty()) allreduces = {o.engine.communication.allreduce};
  std::vector<EngineOptions> engines;
  for (const DTypeChoice dtype : o.dtypes) {
    for (const int threads : o.threads) {
      for (const std::string& allreduce : allreduces) {
        EngineOptions& engine = engines.emplace_back(o.engine);
        engine.dtype = dtype;
        engine.threads = threads;
        engine.communication.allreduce = allreduce;
      }
    }
  }
  return engines;
}

CommandTable bench_command(BenchOptions& o) {
  // Lists are crossed; a test of so many steps takes too long to be meant beyond this.
  constexpr IntegerRange kTokens{0, 1'000'000}, kBatch{1, 65'536}, kWarmup{0, 1000};
  return command(
      "bench", "speed of prefill and decoding, and how far it is from the memory's",
      {bench_engine_table(o),
       section("Tests (lists are crossed with each other)",
               {shape_option(o.shape),
                integer_list_option("prompt", "tokens of a prefill; 0: none", o.prompt, kTokens),
                integer_list_option("generate", "decoding steps; 0: none", o.generate, kTokens),
                integer_list_option("batch", "sequences at once", o.batch, kBatch)}),
       section("Repetitions",
               {integer_option("repetitions", "of each test, at least", o.repetitions, kTimes),
                integer_option("most", "repetitions of each test", o.most, kTimes),
                real_option("ci-width", "enough: the median's 95 % interval, as a share of it",
                            o.ci_width),
                seconds_option("max-seconds", "of a test", o.max_seconds),
                integer_option("warmup", "repetitions that do not count, before; at least",
                               o.warmup, kWarmup),
                format_option(o.format)}),
       bench_communication_table(o), observe_table(o.engine.observe), shared_table(o.shared)});
}

CommandTable coll_command(CollOptions& o) {
  constexpr IntegerRange kBytes{0, 1 << 30};
  return command(
      "bench coll", "time of the collectives by algorithm and size, against the MPI library's",
      {section(
           "Collectives",
           {words_option("op", "OP,...", "all_reduce, broadcast, gather, barrier", o.ops, check_op),
            integer_list_option("bytes", "sizes of messages", o.bytes, kBytes),
            words_option("algorithms", "ALGORITHM,...",
                         "all-reduces to try; none: all, against the library's", o.algorithms,
                         check_unrounded),
            modes_option(o.modes),
            choice_option("buffers", "the same memory each call, or other memory", o.buffers,
                          {"warm", "cold"}),
            checked_option("emulate", "as over a slower network: latency_us=100,gbit=1,...",
                           "NETWORK", o.emulate,
                           [](const std::string& text) { parse_emulation(text); })}),
       section(
           "Repetitions",
           {integer_option("repetitions", "calls of each, at least", o.least, kTimes),
            integer_option("most", "calls of each", o.most, kTimes),
            real_option("ci-width", "enough: the median's 95 % interval, as a share of it",
                        o.ci_width),
            seconds_option("max-seconds", "of each size, all algorithms together", o.max_seconds),
            path_option("calibration", "FILE", "what model_us is from; none: a fit", o.calibration),
            seconds_option("timeout", "how long a rank waits for another one", o.timeout_s),
            format_option(o.format)}),
       shared_table(o.shared)});
}

}  // namespace shardlm
