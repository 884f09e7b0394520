#include "study/rank_segments.h"

#include <fmt/format.h>

#include <algorithm>

namespace shardlm {
namespace {

// Cuts gaps between calls at the borders of the passes. Times only go forward: what is out of order
// by a clock's error is cut to fit.
class Segments {
 public:
  Segments(const MergedRank& rank, std::int64_t begin) : steps_(rank.steps), now_(begin) {}

  // What lies before `until`, which is the entry of `call` or the end of the run.
  void add_gap(std::int64_t until, std::size_t call, const StepMark& serves) {
    while (now_ < until) {
      while (step_ < steps_.size() && steps_[step_].end <= now_) ++step_;
      const bool none = step_ == steps_.size() || steps_[step_].begin >= until;
      if (none) return add(SegmentKind::other, until, call, serves);
      const RankStep& step = steps_[step_];
      if (now_ < step.begin) add(SegmentKind::other, step.begin, call, step.mark);
      const bool whole = step.end <= until;
      add(SegmentKind::compute, whole ? step.end : until,
          whole && step.end < until ? RankSegment::kNoCall : call, step.mark);
    }
  }
  void add_call(const RankPart& part, std::size_t call, const StepMark& mark) {
    add(SegmentKind::call, part.exit, call, mark);
  }
  std::vector<RankSegment> take() { return std::move(found_); }

 private:
  void add(SegmentKind kind, std::int64_t end, std::size_t call, const StepMark& mark) {
    if (end <= now_) return;
    found_.push_back({.kind = kind,
                      .begin = now_,
                      .end = end,
                      .call = call,
                      .step = mark.number,
                      .phase = mark.phase});
    now_ = end;
  }
  const std::vector<RankStep>& steps_;
  std::size_t step_ = 0;
  std::int64_t now_;
  std::vector<RankSegment> found_;
};

std::int64_t first_known(const MergedRun& run, std::size_t rank) {
  const MergedRank& r = run.ranks[rank];
  if (r.dropped_calls == 0 && r.incomplete_calls == 0) return r.run_ns;
  if (run.calls.empty()) return r.last_ns;
  return std::max(r.run_ns, run.parts_of(0)[rank].entry);
}

}  // namespace

std::vector<RankSegment> rank_segments(const MergedRun& run, std::size_t rank) {
  const std::int64_t begin = first_known(run, rank);
  Segments segments(run.ranks[rank], begin);
  for (std::size_t c = 0; c < run.calls.size(); ++c) {
    const RankPart& part = run.parts_of(c)[rank];
    if (part.entry < begin) continue;
    segments.add_gap(part.exit - part.exposed(), c, run.calls[c].step);
    segments.add_call(part, c, run.calls[c].step);
  }
  segments.add_gap(run.ranks[rank].last_ns, RankSegment::kNoCall, {});
  return segments.take();
}

std::string segment_name(const MergedRun& run, std::size_t rank, const RankSegment& segment) {
  if (segment.kind == SegmentKind::call) return site_text(run.calls[segment.call].call.site);
  if (segment.kind == SegmentKind::other) return rank == 0 ? "sample" : "host";
  if (run.calls.empty()) return "forward";
  if (segment.call == RankSegment::kNoCall) return "lm_head";
  const Site site = run.calls[segment.call].call.site;
  switch (site.kind) {
    case SiteKind::embed:
      return "embed";
    case SiteKind::attn_out:
      return fmt::format("attention[{}]", site.layer);
    case SiteKind::mlp_out:
      return fmt::format("mlp[{}]", site.layer);
    default:
      return "lm_head";
  }
}

}  // namespace shardlm
