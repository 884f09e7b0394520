#include <algorithm>
#include <cmath>
#include <set>
#include <tuple>

#include "study/report/groups.h"
#include "study/report/number_text.h"

namespace shardlm::report {
namespace {

double work_of(const BenchRow& row) {
  return row.weight_bytes.value_or(row.parameters.value_or(0));
}

ScalingStep step_of(const BenchRow& row, const BenchRow& base, bool weak) {
  ScalingStep s{.row = &row, .speedup = {}, .efficiency = {}};
  const double growth = weak ? work_of(row) / work_of(base) : 1;
  const double ranks = static_cast<double>(row.ranks) / base.ranks;
  s.speedup = scaled(ratio(base.time_ms, row.time_ms), growth);
  s.efficiency = scaled(s.speedup, 1 / ranks);
  const double p = row.ranks;
  if (!weak && base.ranks == 1 && row.ranks > 1)
    s.karp_flatt = (1 / s.speedup.middle - 1 / p) / (1 - 1 / p);
  if (base.step && row.step && row.step->compute > 0)
    s.compute_scaling = growth * base.step->compute * base.ranks / (row.step->compute * p);
  return s;
}

// One row a rank count, the first of equals.
Rows by_ranks(const Rows& rows) {
  Rows sorted = rows;
  std::stable_sort(sorted.begin(), sorted.end(),
                   [](auto* a, auto* b) { return a->ranks < b->ranks; });
  sorted.erase(std::unique(sorted.begin(), sorted.end(),
                           [](auto* a, auto* b) { return a->ranks == b->ranks; }),
               sorted.end());
  return sorted;
}

Scaling scaling_of(const Group& group, bool weak) {
  Scaling s{.group = group, .steps = {}, .weak = weak};
  s.group.rows = by_ranks(group.rows);
  for (const BenchRow* row : s.group.rows)
    s.steps.push_back(step_of(*row, *s.group.rows.front(), weak));
  return s;
}

// Less is nearer to what one would ask first.
auto story_order(const Scaling& s) {
  const BenchRow& base = s.base();
  return std::tuple(!base.decode, -static_cast<long>(s.steps.size()), base.approximate(),
                    !base.emulate.empty(), base.wire != "f32" && !base.wire.empty(), base.batch);
}

// Where a rank count was measured on several numbers of nodes, a group for each number; a single
// rank is the base of all of them.
std::vector<Group> by_nodes(const Group& group) {
  std::set<int> nodes, ranks;
  std::set<std::pair<int, int>> pairs;
  for (const BenchRow* row : group.rows) {
    nodes.insert(row->nodes);
    ranks.insert(row->ranks);
    pairs.emplace(row->ranks, row->nodes);
  }
  if (pairs.size() == ranks.size()) return {group};
  std::vector<Group> parts;
  for (const int n : nodes) {
    Group part{group.setting, {}};
    part.setting["nodes"] = std::to_string(n);
    for (const BenchRow* row : group.rows) {
      if (row->nodes == n || row->ranks == 1) part.rows.push_back(row);
    }
    parts.push_back(std::move(part));
  }
  return parts;
}

// One rank makes no sums, so how ranks meet does not matter to it: a plan runs it once. It is the
// base of every group that differs in nothing else.
void lend_one_rank(const Facts& facts, Group& group) {
  const auto alone = [](const BenchRow* row) { return row->ranks == 1; };
  if (std::any_of(group.rows.begin(), group.rows.end(), alone)) return;
  for (const BenchRow& row : facts.benches) {
    if (row.ranks != 1) continue;
    auto setting = row.setting;
    for (const char* name : {"ranks", "nodes"}) setting.erase(name);
    for (const char* name : {"allreduce", "wire", "overlap", "emulate", "factor comm"}) {
      const auto found = group.setting.find(name);
      setting.erase(name);
      if (found != group.setting.end()) setting[name] = found->second;
    }
    if (setting != group.setting) continue;
    group.rows.push_back(&row);
    return;
  }
}

bool grows_with_ranks(const Rows& rows) {
  const Rows sorted = by_ranks(rows);
  if (sorted.size() < 2 || sorted.size() != rows.size()) return false;
  for (std::size_t i = 0; i < sorted.size(); ++i) {
    if (!(work_of(*sorted[i]) > (i == 0 ? 0 : work_of(*sorted[i - 1]) * 1.05))) return false;
  }
  return true;
}

}  // namespace

const ScalingStep& Scaling::best() const {
  if (weak) return steps.back();
  return *std::max_element(steps.begin(), steps.end(),
                           [](const ScalingStep& a, const ScalingStep& b) {
                             return a.row->rate.middle < b.row->rate.middle;
                           });
}

std::vector<Scaling> strong_scalings(const Facts& facts) {
  std::vector<Scaling> all;
  for (Group& group : group_rows(facts.benches, {"ranks", "nodes"})) {
    if (!tells_speed(*group.rows.front())) continue;
    lend_one_rank(facts, group);
    for (const Group& part : by_nodes(group)) {
      if (by_ranks(part.rows).size() > 1) all.push_back(scaling_of(part, false));
    }
  }
  std::stable_sort(all.begin(), all.end(), [](const Scaling& a, const Scaling& b) {
    return story_order(a) < story_order(b);
  });
  return all;
}

std::vector<Scaling> weak_scalings(const Facts& facts) {
  std::vector<Scaling> all;
  for (const Group& group : group_rows(facts.benches, {"ranks", "nodes", "model"})) {
    if (!tells_speed(*group.rows.front())) continue;
    if (grows_with_ranks(group.rows)) all.push_back(scaling_of(group, true));
  }
  std::stable_sort(all.begin(), all.end(), [](const Scaling& a, const Scaling& b) {
    return story_order(a) < story_order(b);
  });
  return all;
}

std::optional<Limit> limit_of(const ScalingStep& step) {
  const BenchRow& row = *step.row;
  if (row.ranks == 1 || !row.load_balance || !row.serialisation || !row.transfer_efficiency)
    return std::nullopt;
  std::vector<Limit> limits = {
      {"load balance", *row.load_balance,
       "some ranks have more to compute than others, who wait for them"},
      {"serialisation", *row.serialisation,
       "ranks are late in turns, so someone waits at almost every sum"},
      {"transfer", *row.transfer_efficiency, "moving and adding the data takes the time"}};
  if (step.compute_scaling) {
    limits.push_back(
        {"computation", *step.compute_scaling,
         row.oversubscribed > 0
             ? "the ranks share cores, so each computes more slowly"
             : "the ranks together compute more slowly than one did alone, as where they "
               "share memory bandwidth, cache or clock"});
  }
  return *std::min_element(limits.begin(), limits.end(),
                           [](const Limit& a, const Limit& b) { return a.factor < b.factor; });
}

}  // namespace shardlm::report
