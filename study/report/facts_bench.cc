#include <algorithm>
#include <array>
#include <cmath>

#include "study/report/facts.h"
#include "study/report/launches.h"
#include "study/report/number_text.h"

namespace shardlm::report {
namespace {

// Factors that a result states itself, under its own names.
constexpr std::array kStated = {"ranks",   "nodes",    "batch",   "prompt",    "generate",
                                "dtype",   "kv_dtype", "threads", "wire",      "overlap",
                                "emulate", "shape",    "model",   "allreduce", "all_reduce",
                                "comm",    "link",     "kv-dtype"};

std::optional<StepTimes> times_of(const Json& object) {
  const auto compute = number(object, "compute"), wait = number(object, "wait");
  const auto transfer = number(object, "transfer"), other = number(object, "other");
  if (!compute || !wait || !transfer || !other) return std::nullopt;
  // A clock's error may leave a part a hair below nothing.
  const auto part = [](double v) { return std::max(v, 0.0); };
  return StepTimes{part(*compute), part(*wait), part(*transfer), part(*other)};
}

std::vector<RankTimes> ranks_of(const Json& result) {
  std::vector<RankTimes> all;
  const Json& ranks = member(result, "rank_ms");
  if (!ranks.is_array()) return all;
  for (const Json& r : ranks) {
    const auto ms = times_of(r);
    const auto rank = number(r, "rank");
    if (!ms || !rank || *rank < 0 || *rank > 1e6) continue;
    std::string core = text(r, "core");
    if (core.empty()) core = text(r, "cores");
    all.push_back({static_cast<int>(*rank), text(r, "host"), core, *ms});
  }
  return all;
}

std::optional<Traffic> traffic_of(const Json& result) {
  const Json& t = member(result, "all_reduce");
  const auto calls = number(t, "calls_per_step"), bytes = number(t, "counted_bytes_per_step");
  if (!calls || !bytes) return std::nullopt;
  return Traffic{.calls = *calls,
                 .bytes_per_call = number(t, "bytes_per_call").value_or(0),
                 .counted_bytes = *bytes,
                 .expected_calls = number(t, "expected_calls"),
                 .expected_bytes = number(t, "expected_bytes_per_step"),
                 .sent_bytes = number(t, "sent_bytes_per_step"),
                 .algorithms = text(t, "algorithms")};
}

std::optional<Quality> quality_of(const Json& r) {
  const auto tokens = positive(r, "quality_tokens"), difference = number(r, "max_logit_difference");
  const auto top1 = number(r, "top1_agreement"), kl = number(r, "kl");
  if (!tokens || !difference || !top1 || !kl) return std::nullopt;
  return Quality{*tokens, text(r, "quality_text") == "fixed", *difference, *top1,
                 *kl,     number(r, "perplexity_change")};
}

std::string model_of(const Json& result) {
  const Json& m = member(result, "model");
  std::string name = text(m, "source");
  const std::size_t slash = name.find_last_of('/');
  return slash == std::string::npos || slash + 1 == name.size() ? name : name.substr(slash + 1);
}

// What the row was asked to be. Ranks and nodes are in it: a group leaves out what it varies.
std::map<std::string, std::string> setting_of(const LaunchResult& launch, const BenchRow& row) {
  std::map<std::string, std::string> setting;
  for (const auto& [name, value] : launch.factors) {
    const bool stated = std::find(kStated.begin(), kStated.end(), name) != kStated.end();
    if (!stated) setting["factor " + name] = value;
  }
  for (const char* name : {"dtype", "kv_dtype", "threads"})
    setting[name] = text(*launch.result, name);
  setting["kind"] = row.decode ? "decode" : "prefill";
  setting["batch"] = number_text(row.batch, 9);
  setting["tokens"] = number_text(row.tokens, 9);
  setting["ranks"] = std::to_string(row.ranks);
  setting["nodes"] = std::to_string(row.nodes);
  setting["allreduce"] = row.allreduce;
  setting["wire"] = row.wire;
  setting["overlap"] = row.overlap;
  setting["emulate"] = row.emulate;
  setting["model"] = row.model;
  return setting;
}

// What identifies a row; nothing if the result is unusable.
std::optional<BenchRow> start_row(const LaunchResult& launch) {
  const Json& r = *launch.result;
  const auto ranks = count(r, "ranks");
  const auto batch = positive(r, "batch"), tokens = positive(r, "tokens");
  if (!ranks || !batch || !tokens || *batch > 1e9 || !positive(r, "tokens_per_s"))
    return std::nullopt;
  BenchRow row;
  row.cell = launch.cell;
  row.test = text(r, "test");
  row.decode = text(r, "kind") != "prefill";
  row.ranks = *ranks;
  row.nodes = count(r, "nodes").value_or(1);
  row.batch = *batch;
  row.tokens = *tokens;
  row.allreduce = text(r, "allreduce");
  row.wire = text(r, "wire");
  row.overlap = text(r, "overlap");
  row.emulate = text(r, "emulate");
  if (row.emulate == "none") row.emulate.clear();
  row.model = model_of(r);
  const auto compute = launch.factors.find("compute");
  row.messages_only = compute != launch.factors.end() && compute->second == "none";
  row.setting = setting_of(launch, row);
  return row;
}

double time_of(const Json& r, const BenchRow& row) {
  if (const auto ms = positive(r, row.decode ? "ms_per_step" : "ttft_ms")) return *ms;
  return 1e3 * row.batch * (row.decode ? 1 : row.tokens) / *positive(r, "tokens_per_s");
}

// One launch alone speaks of its repetitions only.
void take_repetitions(const Json& r, BenchRow& row) {
  const auto low = positive(r, "tokens_per_s_low"), high = positive(r, "tokens_per_s_high");
  if (row.rate.launches != 1 || !low || !high || *low > *high) return;
  const double work = row.rate.middle * row.time_ms.middle;
  row.rate.low = low;
  row.rate.high = high;
  row.time_ms.low = work / *high;
  row.time_ms.high = work / *low;
  row.rate.spread = row.time_ms.spread = Spread::repetitions;
}

void take_middle_launch(const Json& r, BenchRow& row) {
  row.step = times_of(member(r, "step_ms"));
  row.load_balance = number(r, "load_balance");
  row.serialisation = number(r, "serialisation");
  row.transfer_efficiency = number(r, "transfer_efficiency");
  row.closing_error = number(r, "closing_error");
  row.rank_times = ranks_of(r);
  row.traffic = traffic_of(r);
  row.quality = quality_of(r);
  row.read_gb_per_s = positive(r, "read_gb_per_s");
  row.weight_bytes = positive(r, "weight_bytes");
  row.parameters = positive(member(r, "model"), "parameters");
  row.joules_per_token = positive(r, "joules_per_token");
  row.exactness = text(r, "exactness");
}

void finish_row(BenchRow& row, std::vector<const Json*> results) {
  std::vector<double> rates, times;
  for (const Json* r : results) {
    rates.push_back(*positive(*r, "tokens_per_s"));
    times.push_back(time_of(*r, row));
    row.noisy += flag(*r, "noisy") ? 1 : 0;
    row.oversubscribed += flag(*r, "oversubscribed") ? 1 : 0;
    row.open += member(*r, "closes").is_boolean() && !flag(*r, "closes") ? 1 : 0;
    const auto gaps = numbers(*r, "itl_samples_ms");
    row.gaps_ms.insert(row.gaps_ms.end(), gaps.begin(), gaps.end());
  }
  std::erase_if(row.gaps_ms, [](double ms) { return !(ms > 0); });
  row.rate = summarise(rates);
  row.time_ms = summarise(times);
  std::stable_sort(results.begin(), results.end(), [&](const Json* a, const Json* b) {
    return time_of(*a, row) < time_of(*b, row);
  });
  take_middle_launch(*results[(results.size() - 1) / 2], row);
  take_repetitions(*results.front(), row);
}

}  // namespace

std::optional<double> BenchRow::parallel() const {
  if (!load_balance || !serialisation || !transfer_efficiency) return std::nullopt;
  return *load_balance * *serialisation * *transfer_efficiency;
}

std::optional<double> list_number(const std::string& list, const std::string& name) {
  std::size_t begin = 0;
  while (begin < list.size()) {
    const std::size_t end = std::min(list.find(',', begin), list.size());
    const std::string item = list.substr(begin, end - begin);
    if (item.starts_with(name + "=")) {
      char* rest = nullptr;
      const std::string value = item.substr(name.size() + 1);
      const double v = std::strtod(value.c_str(), &rest);
      if (!value.empty() && *rest == 0 && std::isfinite(v)) return v;
      return std::nullopt;
    }
    begin = end + 1;
  }
  return std::nullopt;
}

void gather_benches(const StudyData& study, Facts& facts) {
  std::vector<BenchRow> rows;
  std::vector<std::vector<const Json*>> results;
  std::map<std::map<std::string, std::string>, std::size_t> places;
  std::size_t unusable = 0;
  for (const LaunchResult& launch : results_of(study, "shardlm bench")) {
    std::optional<BenchRow> row = start_row(launch);
    if (!row) {
      ++unusable;
      continue;
    }
    auto key = row->setting;
    key["cell"] = row->cell;
    const auto [found, fresh] = places.emplace(std::move(key), rows.size());
    if (fresh) {
      rows.push_back(std::move(*row));
      results.emplace_back();
    }
    results[found->second].push_back(launch.result);
  }
  for (std::size_t i = 0; i < rows.size(); ++i) finish_row(rows[i], results[i]);
  if (unusable > 0) {
    facts.notes.push_back(count_text(static_cast<double>(unusable), "result") +
                          " of bench without ranks, batch, tokens or a speed above 0: left out.");
  }
  facts.benches = std::move(rows);
}

}  // namespace shardlm::report
