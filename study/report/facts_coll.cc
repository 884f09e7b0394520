#include <algorithm>
#include <map>
#include <tuple>

#include "study/report/facts.h"
#include "study/report/launches.h"
#include "study/report/number_text.h"
#include "study/statistics.h"

namespace shardlm::report {
namespace {

struct Gathered {
  CollRow row;
  std::vector<double> medians, models;
  std::optional<double> low, high;
};

std::optional<CollRow> start_row(const LaunchResult& launch) {
  const Json& r = *launch.result;
  const auto ranks = count(r, "ranks");
  const auto bytes = positive(r, "bytes");
  if (!ranks || !bytes || !positive(r, "t_p50_us") || text(r, "algorithm").empty())
    return std::nullopt;
  CollRow row;
  row.cell = launch.cell;
  row.op = text(r, "op");
  row.algorithm = text(r, "algorithm");
  row.emulate = text(r, "emulate");
  if (row.emulate == "none") row.emulate.clear();
  row.mode = text(r, "mode");
  row.buffers = text(r, "buffers");
  row.ranks = *ranks;
  row.nodes = count(r, "nodes").value_or(1);
  row.bytes = *bytes;
  return row;
}

void take(const Json& r, Gathered& g) {
  g.medians.push_back(*positive(r, "t_p50_us"));
  if (const auto model = positive(r, "model_us")) g.models.push_back(*model);
  g.low = positive(r, "low_us");
  g.high = positive(r, "high_us");
  g.row.wrong +=
      static_cast<std::size_t>(std::min(number(r, "wrong").value_or(0), 1e15) > 0 ? 1 : 0);
  g.row.noisy += flag(r, "noisy") ? 1 : 0;
  g.row.oversubscribed += flag(r, "oversubscribed") ? 1 : 0;
  g.row.calls += number(r, "calls").value_or(0);
}

}  // namespace

void gather_colls(const StudyData& study, Facts& facts) {
  using Key =
      std::tuple<std::string, std::string, std::string, std::string, std::string, int, int, double>;
  std::map<Key, std::size_t> places;
  std::vector<Gathered> all;
  std::size_t unusable = 0;
  for (const LaunchResult& launch : results_of(study, "shardlm coll")) {
    std::optional<CollRow> row = start_row(launch);
    if (!row) {
      ++unusable;
      continue;
    }
    Key key{row->op,      row->algorithm, row->emulate, row->mode,
            row->buffers, row->ranks,     row->nodes,   row->bytes};
    const auto [found, fresh] = places.emplace(std::move(key), all.size());
    if (fresh) all.push_back({std::move(*row), {}, {}, {}, {}});
    take(*launch.result, all[found->second]);
  }
  for (Gathered& g : all) {
    g.row.us = summarise(g.medians);
    if (g.row.us.launches == 1 && g.low && g.high && *g.low <= *g.high) {
      g.row.us.low = g.low;
      g.row.us.high = g.high;
      g.row.us.spread = Spread::repetitions;
    }
    if (!g.models.empty()) g.row.model_us = median(g.models);
    facts.colls.push_back(std::move(g.row));
  }
  if (unusable > 0) {
    facts.notes.push_back(count_text(static_cast<double>(unusable), "result") +
                          " of bench coll without ranks, bytes, an algorithm or a time: left out.");
  }
}

}  // namespace shardlm::report
