#include "backend/cpu/attention.h"

#include <algorithm>
#include <bit>

#include "backend/cpu/attention_kernel.h"
#include "backend/cpu/kv_append.h"
#include "base/error.h"

namespace shardlm {
namespace {

// Below this much work (floats to move; costs of the plan times head_dim) the caller works alone.
constexpr std::int64_t kAppendGrain = 16 * 1024;
constexpr std::int64_t kAttendGrain = 64 * 1024;
constexpr std::int64_t kGroup = CpuKvStorage::kTokenGroup;

void check_sequence(const SequenceRows& s, std::int64_t rows, const CpuKvStorage& cache) {
  check(s.n_rows >= 0 && s.first_row >= 0 && s.first_row + s.n_rows <= rows,
        "attention: the rows of a sequence are rows of the step");
  check(s.start >= 0, "attention: a sequence starts at position 0 or later");
  if (s.n_rows == 0) return;
  const std::int64_t needed =
      (s.start + s.n_rows + cache.block_tokens() - 1) / cache.block_tokens();
  check(needed <= std::ssize(s.blocks), "attention: a sequence's blocks cover its tokens");
  for (const std::int32_t block : s.blocks.first(static_cast<std::size_t>(needed))) {
    check(block >= 0 && block < cache.n_blocks(), "attention: a KV block of the storage");
  }
}

/// Groups of 16 tokens that the step's rows of a sequence touch.
std::int64_t groups_of(const SequenceRows& s) {
  return s.n_rows == 0 ? 0 : (s.start + s.n_rows - 1) / kGroup - s.start / kGroup + 1;
}

}  // namespace

struct Attention::Call {
  const Tensor &q, &k, &v, &out;
  const CpuKvStorage& cache;
  std::span<const SequenceRows> sequences;
  float scale;
  bool one_row_each;  // then a thread appends what it alone reads

  const SequenceRows& sequence(std::int64_t i) const {
    return sequences[static_cast<std::size_t>(i)];
  }
  std::int64_t stride() const { return cache.head(0, {}).value_stride; }

  /// Appends the part of a sequence's rows that stands in its group-th group.
  void append(const SequenceRows& s, std::int64_t head, std::int64_t group) const {
    const std::int64_t first = std::max(s.start, (s.start / kGroup + group) * kGroup);
    const std::int64_t end = std::min(s.start + s.n_rows, (first / kGroup + 1) * kGroup);
    const std::int64_t row = s.first_row + first - s.start, column = head * cache.head_dim();
    append_tokens({.cache = cache.head(head, s.blocks),
                   .position = first,
                   .count = end - first,
                   .keys = k.row(row) + column,
                   .values = v.row(row) + column,
                   .key_stride = k.stride(),
                   .value_stride = v.stride()});
  }
  QueryTile tile(const PlannedTile& planned) const {
    const SequenceRows& s = sequence(planned.sequence);
    return {.cache = cache.head(planned.head, s.blocks),
            .rows = planned.rows,
            .position = s.start + planned.first_row};
  }
  void finish(const TileState& state, const PlannedTile& planned) const {
    const std::int64_t row = sequence(planned.sequence).first_row + planned.first_row;
    finish_rows(state, tile(planned), out.row(row) + planned.head * cache.head_dim(), out.stride());
  }
};

/// What a part works in.
struct Attention::Scratch {
  float *q, *scores, *state, *run;
  float* split;  // states of the runs of the tile that this part begins and does not end
};

Attention::Tensors Attention::thirds(const Tensor& qkv) {
  const std::int64_t width = qkv.cols() / 3;
  return {qkv.columns(0, width), qkv.columns(width, 2 * width), qkv.columns(2 * width, 3 * width)};
}

void Attention::begin_by_heads(const Tensors& t, const CpuKvStorage& cache,
                               std::span<const SequenceRows> sequences, const Tensor& out) {
  check(out.rows() == t.q.rows() && t.q.cols() == cache.n_head() * cache.head_dim(),
        "attention: [rows, n_head * head_dim]");
  for (const SequenceRows& s : sequences) {
    check_sequence(s, out.rows(), cache);
    check(s.n_rows <= 1, "attention by heads: one row a sequence");
  }
  make_room({t.q, t.k, t.v, out, cache, sequences, 1, true}, 0);
}

void Attention::attend_heads(const Tensors& t, const CpuKvStorage& cache,
                             std::span<const SequenceRows> sequences, float scale,
                             const Tensor& out, std::int64_t first_head, std::int64_t end_head,
                             int worker) {
  const Call call{t.q, t.k, t.v, out, cache, sequences, scale, true};
  for (std::int64_t i = 0; i < std::ssize(sequences); ++i) {
    const SequenceRows& s = call.sequence(i);
    if (s.n_rows == 0) continue;
    const std::int64_t runs = (s.start + s.n_rows + kRunTokens - 1) / kRunTokens;
    for (std::int64_t head = first_head; head < end_head; ++head) {
      attend_tile(call, worker,
                  {.sequence = i, .head = head, .rows = 1, .end_run = runs, .n_runs = runs});
    }
  }
}

void Attention::run(const Tensor& q, const Tensor& k, const Tensor& v, CpuKvStorage& cache,
                    std::span<const SequenceRows> sequences, float scale, const Tensor& out) {
  const std::int64_t width = cache.n_head() * cache.head_dim();
  for (const Tensor* t : {&q, &k, &v, &out}) {
    check(t->rows() == q.rows() && t->cols() == width, "attention: [rows, n_head * head_dim]");
  }
  bool one_row_each = true;
  for (const SequenceRows& s : sequences) {
    check_sequence(s, q.rows(), cache);
    one_row_each = one_row_each && s.n_rows <= 1;
  }
  AttentionPlan plan(sequences, cache.n_head());
  if (plan.cost() == 0 || width == 0) return;
  const Call call{q, k, v, out, cache, sequences, scale, one_row_each};
  make_room(call, plan.most_runs());
  if (!one_row_each) append_all(call);
  const std::int64_t parts =
      std::clamp<std::int64_t>(plan.cost() * cache.head_dim() / kAttendGrain, 1, threads_.size());
  plan.set_parts(parts);
  for (PlannedTile& tile : split_) tile.n_runs = 0;
  threads_.parallel_for(parts, 1, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t part = begin; part < end; ++part) {
      plan.visit(part, [&](const PlannedTile& tile) { attend_tile(call, part, tile); });
    }
  });
  for (std::int64_t part = 0; part < parts; ++part) join_split(call, part);
}

void Attention::append_all(const Call& call) {
  const std::int64_t heads = call.cache.n_head();
  std::int64_t units = 0;
  for (const SequenceRows& s : call.sequences) units += heads * groups_of(s);
  const std::int64_t grain = kAppendGrain / (kGroup * call.cache.head_dim()) + 1;
  threads_.parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    std::int64_t start = 0;
    for (const SequenceRows& s : call.sequences) {
      const std::int64_t groups = groups_of(s), next = start + heads * groups;
      for (std::int64_t u = std::max(begin, start); u < std::min(end, next); ++u) {
        call.append(s, (u - start) / groups, (u - start) % groups);
      }
      start = next;
    }
  });
}

void Attention::make_room(const Call& call, std::int64_t runs) {
  const std::int64_t state = TileState::floats(call.stride());
  const std::int64_t kept = threads_.size() == 1 ? 0 : runs;  // alone, nothing is split
  const std::int64_t needed =
      QueryTile::packed_floats(call.cache.head_dim()) + kTileRoom * kRunTokens + (2 + kept) * state;
  if (needed <= scratch_floats_) return;
  // Powers of two: a growing sequence meets few of these.
  const std::uint64_t floats = std::bit_ceil(static_cast<std::uint64_t>(needed));
  scratch_ =
      MappedMemory(floats * static_cast<std::size_t>(threads_.size()) * sizeof(float), "attention");
  scratch_floats_ = static_cast<std::int64_t>(floats);
}

Attention::Scratch Attention::scratch_of(const Call& call, std::int64_t part) const {
  const std::int64_t state = TileState::floats(call.stride());
  Scratch found;
  found.q = scratch_.floats() + part * scratch_floats_;
  found.scores = found.q + QueryTile::packed_floats(call.cache.head_dim());
  found.state = found.scores + kTileRoom * kRunTokens;
  found.run = found.state + state;
  found.split = found.run + state;
  return found;
}

void Attention::attend_tile(const Call& call, std::int64_t part, const PlannedTile& planned) {
  const SequenceRows& s = call.sequence(planned.sequence);
  const Scratch scratch = scratch_of(call, part);
  const std::int64_t stride = call.stride();
  if (call.one_row_each && planned.end_run == planned.n_runs) call.append(s, planned.head, 0);
  QueryTile tile = call.tile(planned);
  tile.q = scratch.q;
  tile.scores = scratch.scores;
  pack_queries(call.q.row(s.first_row + planned.first_row) + planned.head * call.cache.head_dim(),
               call.q.stride(), call.scale, tile);
  if (!planned.whole()) {
    float* states = scratch_of(call, planned.first_part).split;
    for (std::int64_t run = planned.first_run; run < planned.end_run; ++run) {
      attend_run(tile, run * kRunTokens,
                 TileState::at(states + run * TileState::floats(stride), stride));
    }
    if (planned.first_run == 0) split_[static_cast<std::size_t>(part)] = planned;
    return;
  }
  const TileState state = TileState::at(scratch.state, stride);
  const TileState later = TileState::at(scratch.run, stride);
  attend_run(tile, 0, state);
  for (std::int64_t run = 1; run < planned.n_runs; ++run) {
    attend_run(tile, run * kRunTokens, later);
    join_run(later, first_row_of_run(tile, run * kRunTokens), tile.rows, state);
  }
  call.finish(state, planned);
}

void Attention::join_split(const Call& call, std::int64_t part) {
  const PlannedTile& planned = split_[static_cast<std::size_t>(part)];
  if (planned.n_runs == 0) return;
  const QueryTile tile = call.tile(planned);
  const std::int64_t stride = call.stride();
  float* states = scratch_of(call, part).split;
  const TileState state = TileState::at(states, stride);
  for (std::int64_t run = 1; run < planned.n_runs; ++run) {
    join_run(TileState::at(states + run * TileState::floats(stride), stride),
             first_row_of_run(tile, run * kRunTokens), tile.rows, state);
  }
  call.finish(state, planned);
}

}  // namespace shardlm
