#include "parallel/lanes.h"

#include <algorithm>

namespace shardlm {

Step cut_step(const Step& step, std::int64_t begin, std::int64_t end,
              std::vector<SequenceRows>& sequences) {
  sequences.clear();
  for (const SequenceRows& s : step.sequences.host) {
    const std::int64_t first = std::max(begin, s.first_row);
    const std::int64_t last = std::min(end, s.first_row + s.n_rows);
    if (first >= last) continue;
    sequences.push_back({.first_row = first - begin,
                         .n_rows = last - first,
                         .start = s.start + (first - s.first_row),
                         .blocks = s.blocks});
  }
  const auto part = [begin, end](const Indices& all) {
    return all.host.subspan(static_cast<std::size_t>(begin), static_cast<std::size_t>(end - begin));
  };
  return {.ids = part(step.ids),
          .positions = part(step.positions),
          .sequences = sequences,
          .logit_rows = {},
          .repeatable = false};
}

Lanes::Lanes(const Context& context, const Step& step, Tensor x)
    : context_(context), x_(std::move(x)) {
  const std::int64_t rows = x_.rows();
  if (rows < 2 || !context.comm.overlaps() || context.tap.listening()) {
    lanes_[0].emplace(Lane{ResidualStream(context, x_), step});
    return;
  }
  n_ = 2;
  const std::array<std::int64_t, 3> cuts = {0, (rows + 1) / 2, rows};
  for (std::size_t i = 0; i < 2; ++i) {
    lanes_[i].emplace(Lane{ResidualStream(context, x_.row_range(cuts[i], cuts[i + 1])),
                           cut_step(step, cuts[i], cuts[i + 1], sequences_[i])});
  }
}

Tensor Lanes::normed(const LayerNorm& norm) {
  if (n_ == 1) return lanes_[0]->x.normed(norm);
  for (Lane& lane : *this) lane.x.settle();
  return ResidualStream(context_, x_).normed(norm);
}

}  // namespace shardlm
