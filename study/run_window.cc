#include "study/run_window.h"

#include <algorithm>

namespace shardlm {
namespace {

void cut(RankPart& part, std::int64_t begin_ns, std::int64_t end_ns) {
  const auto inside = [&](std::int64_t ns) { return std::clamp(ns, begin_ns, end_ns); };
  const std::int64_t ready = inside(part.entry + part.wait);
  // What holds a rank up in a call of the background is its end.
  const std::int64_t blocks = part.exit - part.exposed();
  part.entry = inside(part.entry);
  part.exit = inside(part.exit);
  part.wait = ready - part.entry;
  if (part.blocked >= 0) part.blocked = std::max<std::int64_t>(0, part.exit - inside(blocks));
}

void cut(MergedRank& rank, std::int64_t begin_ns, std::int64_t end_ns) {
  rank.run_ns = begin_ns;
  rank.last_ns = end_ns;
  rank.wall_ns = end_ns - begin_ns;
  for (RankStep& step : rank.steps) {
    step.begin = std::clamp(step.begin, begin_ns, end_ns);
    step.end = std::clamp(step.end, begin_ns, end_ns);
  }
  std::erase_if(rank.steps, [](const RankStep& step) { return step.begin == step.end; });
}

}  // namespace

MergedRun window_of(MergedRun run, std::int64_t begin_ns, std::int64_t end_ns) {
  const std::size_t n = run.ranks.size();
  std::size_t kept = 0;
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    const auto parts = run.parts_of(c);
    const bool meets = std::any_of(parts.begin(), parts.end(), [&](const RankPart& part) {
      return part.exit > begin_ns && part.entry < end_ns;
    });
    if (!meets) continue;
    run.calls[kept] = run.calls[c];
    for (std::size_t r = 0; r < n; ++r) {
      RankPart part = parts[r];
      cut(part, begin_ns, end_ns);
      run.parts[kept * n + r] = part;
    }
    ++kept;
  }
  run.calls.resize(kept);
  run.parts.resize(kept * n);
  for (MergedRank& rank : run.ranks) cut(rank, begin_ns, end_ns);
  return run;
}

}  // namespace shardlm
