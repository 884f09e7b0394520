// The options of calibrate and predict.
#include "launcher/predict_options.h"

#include <fmt/format.h>

#include <algorithm>

#include "base/error.h"
#include "comm/algorithm_table.h"
#include "comm/emulation.h"
#include "launcher/model_shape.h"
#include "launcher/options_check.h"
#include "study/link_presets.h"

namespace shardlm {
namespace {

constexpr std::int64_t kMostRanks = 65'536;

OptionSpec text_option(std::string name, std::string value, std::string help, std::string& target,
                       std::function<void(const std::string&)> check) {
  OptionSpec option =
      value_option(std::move(name), std::move(value), std::move(help), ValueKind::text);
  option.default_text = target;
  option.store = [&target, check = std::move(check)](Words words, const std::string& where) {
    in_option(where, [&] { check(words[0]); });
    target = words[0];
  };
  return option;
}

OptionSpec count_option(std::string name, std::string help, std::optional<std::int64_t>& target) {
  OptionSpec option = value_option(std::move(name), "N", std::move(help), ValueKind::number);
  option.store = [&target](Words words, const std::string& where) {
    target = parse_integer(words[0], where, {1, kMostRanks});
  };
  return option;
}

OptionSpec rate_option(std::string name, std::string value, std::string help,
                       std::optional<double>& target) {
  OptionSpec option =
      value_option(std::move(name), std::move(value), std::move(help), ValueKind::number);
  option.store = [&target](Words words, const std::string& where) {
    const double x = parse_real(words[0], where);
    if (x <= 0 || x > 1e12) {
      fail(ExitCode::usage,
           {.expected = "a number above 0, up to 1e12", .found = words[0], .where = where});
    }
    target = x;
  };
  return option;
}

OptionSpec emulate_option(std::string& target) {
  return text_option("emulate", "NETWORK", "as over a slower network: latency_us=100,gbit=1,...",
                     target, [](const std::string& text) { parse_emulation(text); });
}

OptionSpec ranks_option(std::vector<std::int64_t>& target) {
  OptionSpec option = value_option(
      "ranks", "N,...", "numbers of ranks: 3; 1..1024 by doubling; 2-5 each", ValueKind::list);
  option.default_text = fmt::format("{}..{}", target.front(), target.back());
  option.store = [&target](Words words, const std::string& where) {
    target = parse_rank_list(words[0], where);
  };
  return option;
}

}  // namespace

std::vector<std::int64_t> parse_rank_list(const std::string& text, const std::string& where) {
  constexpr std::size_t kMost = 4096;
  std::vector<std::int64_t> ranks;
  for (const std::string& word : split_list(text, where)) {
    const std::size_t dots = word.find(".."), dash = word.find('-', 1);
    const bool doubling = dots != std::string::npos, each = !doubling && dash != std::string::npos;
    const std::size_t cut = doubling ? dots : dash;
    const auto number = [&](const std::string& part) {
      return parse_integer(part, where, {1, kMostRanks});
    };
    if (!doubling && !each) {
      ranks.push_back(number(word));
      continue;
    }
    const std::int64_t first = number(word.substr(0, cut));
    const std::int64_t last = number(word.substr(cut + (doubling ? 2 : 1)));
    if (last < first || (each && last - first >= static_cast<std::int64_t>(kMost))) {
      fail(ExitCode::usage, {.expected = fmt::format("an ascending range of at most {}", kMost),
                             .found = word,
                             .where = where});
    }
    for (std::int64_t n = first; n < last; n = doubling ? 2 * n : n + 1) ranks.push_back(n);
    ranks.push_back(last);
  }
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  if (ranks.size() > kMost) {
    fail(ExitCode::usage, {.expected = fmt::format("at most {} numbers", kMost),
                           .found = std::to_string(ranks.size()),
                           .where = where});
  }
  return ranks;
}

CommandTable calibrate_command(CalibrateOptions& o) {
  constexpr IntegerRange kThreads{0, 4096};
  return command(
      "calibrate", "what links and computing cost here, for predict",
      {section("Calibrate",
               {path_option("out", "FILE", "the file to write; else in the cache folder", o.out),
                seconds_option("seconds", "for each class of links, and for computing", o.seconds),
                integer_option("threads", "compute threads of a rank; 0: as many as its cores",
                               o.threads, kThreads),
                dtype_option(o.dtype), emulate_option(o.emulate),
                seconds_option("timeout", "how long a rank waits for another one", o.timeout_s)}),
       shared_table(o.shared)});
}

CommandTable predict_command(PredictOptions& o) {
  constexpr IntegerRange kTokens{1, 1'000'000}, kBatch{1, 65'536};
  return command(
      "predict", "how fast a model should be on P ranks, before it is run",
      {section("Model",
               {model_option(o.model), shape_option(o.shape), dtype_option(o.dtype),
                kv_dtype_option(o.kv_dtype),
                choice_option("phase", "what is predicted", o.phase, {"decode", "prefill"}),
                integer_option("prompt", "tokens of a prefill; of decoding: that stand before",
                               o.prompt, kTokens),
                integer_option("batch", "sequences at once", o.batch, kBatch),
                integer_option("prefill-chunk", "most prompt tokens in one step", o.prefill_chunk,
                               kFromOne)}),
       section("Ranks",
               {ranks_option(o.ranks),
                grouped("layout", count_option("nodes", "machines, ranks spread evenly", o.nodes)),
                grouped("layout",
                        count_option("ranks-per-node", "ranks of a machine", o.ranks_per_node))}),
       section(
           "What is known",
           {path_option("calibration", "FILE", "of shardlm calibrate", o.calibration),
            text_option("link", "LINK", "a documented one, or its us,Gbit/s[,o us]", o.link,
                        [](const std::string& text) { calibration_of_link(text); }),
            emulate_option(o.emulate),
            path_option("from", "FILE", "one rank's times: shardlm bench --format jsonl", o.from),
            rate_option("read-gbps", "GB", "one rank's memory, GB/s, where nothing is measured",
                        o.read_gb_per_s),
            rate_option("gflops", "GFLOPS", "one rank's arithmetic, where nothing is measured",
                        o.gflop_per_s),
            rate_option("memory-gb", "GB", "memory of one rank", o.memory_gb),
            text_option("allreduce", "auto|CHOICE", "the quickest by the model, or one",
                        o.allreduce,
                        [](const std::string& text) {
                          if (text != "auto") parse_choice(text);
                        })}),
       shared_table(o.shared)});
}

void check_complete(const CalibrateOptions&) {}

void check_complete(const PredictOptions& o) {
  const auto need = [](bool given, const std::string& expected) {
    if (given) return;
    fail(ExitCode::usage, {.expected = expected,
                           .found = "none",
                           .where = "shardlm predict",
                           .remedy = "shardlm predict --help lists the options"});
  };
  need(!o.shape.empty() || !o.model.empty(), "--model DIR or --shape SHAPE");
  if (!o.shape.empty()) parse_shape(o.shape, "--shape");
  need(!o.calibration.empty() || !o.link.empty(), "--calibration FILE or --link LINK");
}

}  // namespace shardlm
