#include "study/report/what_if.h"

#include <algorithm>
#include <array>
#include <map>

#include "study/report/groups.h"

namespace shardlm::report {
namespace {

// Between machines any of these may be taken.
constexpr std::array kAlgorithms = {Algorithm::direct, Algorithm::recdbl, Algorithm::rabenseifner,
                                    Algorithm::ring};
constexpr std::size_t kMostRanks = 8;

WhatIfRanks ranks_of(int ranks, double base_ms, double bytes) {
  WhatIfRanks r{.ranks = ranks, .base_ms = base_ms};
  if (ranks == 1) return r;
  for (const Algorithm a : kAlgorithms) {
    if (const auto terms = cost_terms(a, ranks, bytes))
      r.algorithms.push_back({std::string(name(a)), *terms});
  }
  return r;
}

// The link at the start: between machines if there is one, else the first.
void take_link(const Facts& facts, WhatIf& w) {
  w.link = {.alpha_s = 1e-6,
            .beta_s_per_byte = 1e-10,
            .gamma_s_per_byte = 0,
            .per_message_s = 0,
            .source = ""};
  w.start = "no calibration: 1 µs and 10 GB/s are only a start";
  if (facts.links.empty()) return;
  const LinkClass* chosen = &facts.links.front();
  for (const LinkClass& c : facts.links) {
    if (c.transport == "mpi" && c.emulate == chosen->emulate) chosen = &c;
  }
  const Segment& s = chosen->segments.front();
  w.link = {.alpha_s = std::max(s.alpha_s, 1e-9),
            .beta_s_per_byte = std::max(s.beta_s_per_byte, 1e-13),
            .gamma_s_per_byte = facts.gamma_s_per_byte,
            .per_message_s = chosen->per_message_s,
            .source = link_name(*chosen)};
  w.start = "the calibrated class \"" + link_name(*chosen) + "\"";
}

// What was predicted of the story's cells over real links, by ranks.
std::map<int, PredictedPoint> predicted(const Facts& facts, const Scaling& story) {
  std::map<int, PredictedPoint> points;
  for (const Prediction& p : facts.predictions) {
    if (!p.decode || p.batch != story.base().batch || !(p.emulate.empty() || p.emulate == "none"))
      continue;
    const bool of_story = std::any_of(story.steps.begin(), story.steps.end(),
                                      [&](const ScalingStep& s) { return s.row->cell == p.cell; });
    if (!of_story) continue;
    for (const PredictedPoint& x : p.points) points.emplace(x.ranks, x);
  }
  return points;
}

}  // namespace

std::string link_name(const LinkClass& link) {
  return link.emulate.empty() ? link.name : link.name + ", " + link.emulate;
}

std::optional<WhatIf> make_what_if(const Facts& facts) {
  const auto scalings = strong_scalings(facts);
  if (scalings.empty() || !scalings.front().base().decode) return std::nullopt;
  const Scaling& story = scalings.front();
  WhatIf w{.source = {}, .start = {}, .link = {}, .batch = story.base().batch};
  for (const ScalingStep& step : story.steps) {
    if (!step.row->traffic || step.row->traffic->calls <= 0) continue;
    w.calls = step.row->traffic->calls;
    w.bytes = step.row->traffic->bytes_per_call;
  }
  if (!(w.calls > 0) || !(w.bytes > 0) || w.bytes > 1e12) return std::nullopt;
  take_link(facts, w);
  w.source = "predicted computation";
  for (const auto& [ranks, x] : predicted(facts, story)) {
    const double base = x.compute_ms + x.head_ms + x.other_ms;
    if (base > 0 && ranks <= 1024) w.ranks.push_back(ranks_of(ranks, base, w.bytes));
  }
  const BenchRow& alone = story.base();
  if (!w.ranks.empty() && w.ranks.front().ranks > alone.ranks && alone.ranks == 1) {
    w.source = "predicted computation (of one rank: measured)";
    w.ranks.push_back(ranks_of(1, alone.time_ms.middle, w.bytes));
  }
  if (w.ranks.size() < 2) {
    w.source = "measured computation";
    w.ranks.clear();
    for (const ScalingStep& step : story.steps) {
      if (!step.row->step || step.row->ranks > 1024) continue;
      const StepTimes& t = *step.row->step;
      w.ranks.push_back(ranks_of(step.row->ranks, t.compute + t.wait + t.other, w.bytes));
    }
  }
  if (w.ranks.size() < 2) return std::nullopt;
  std::stable_sort(w.ranks.begin(), w.ranks.end(),
                   [](auto& a, auto& b) { return a.ranks < b.ranks; });
  w.ranks.erase(std::unique(w.ranks.begin(), w.ranks.end(),
                            [](auto& a, auto& b) { return a.ranks == b.ranks; }),
                w.ranks.end());
  if (w.ranks.size() > kMostRanks) w.ranks.resize(kMostRanks);
  return w;
}

WhatIfStep what_if_step(const WhatIf& w, const WhatIfRanks& r, const LinkCost& link) {
  WhatIfStep best{.ms = r.base_ms};
  double least = 0;
  for (const WhatIfRanks::Choice& choice : r.algorithms) {
    const double seconds = choice.terms.seconds(link);
    if (!best.algorithm.empty() && seconds >= least) continue;
    least = seconds;
    best.algorithm = choice.name;
  }
  best.ms += 1e3 * w.calls * least;
  return best;
}

}  // namespace shardlm::report
