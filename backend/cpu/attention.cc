#include "backend/cpu/attention.h"

#include <algorithm>
#include <bit>

#include "base/error.h"

namespace shardlm {
namespace {

// Below this many floats to move, or multiply-adds to make, the caller works alone.
constexpr std::int64_t kAppendGrain = 16 * 1024;
constexpr std::int64_t kAttendGrain = 16 * 1024;

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

}  // namespace

struct Attention::Call {
  const Tensor &q, &k, &v, &out;
  CpuKvStorage& cache;
  std::span<const SequenceRows> sequences;
  float scale;
  std::int64_t shares;
};

void Attention::run(const Tensor& q, const Tensor& k, const Tensor& v, CpuKvStorage& cache,
                    std::span<const SequenceRows> sequences, float scale, const Tensor& out) {
  const std::int64_t width = cache.n_head() * cache.head_dim();
  for (const Tensor* t : {&q, &k, &v, &out}) {
    check(t->rows() == q.rows() && t->cols() == width, "attention: [rows, n_head * head_dim]");
  }
  std::int64_t longest = 0, rows = 0, products = 0;
  for (const SequenceRows& s : sequences) {
    check_sequence(s, q.rows(), cache);
    if (s.n_rows == 0) continue;
    longest = std::max(longest, s.start + s.n_rows);
    rows += s.n_rows;
    products += 2 * s.n_rows * (s.start + s.n_rows) * width;
  }
  if (rows == 0 || width == 0) return;
  if (attention_scratch(longest) > scratch_floats_) {
    // Powers of two: a growing sequence meets few of these.
    scratch_floats_ = static_cast<std::int64_t>(std::bit_ceil(
        static_cast<std::uint64_t>(std::max<std::int64_t>(attention_scratch(longest), 1024))));
    scratch_.assign(static_cast<std::size_t>(scratch_floats_ * threads_.size()), 0.0F);
  }
  const std::int64_t useful = std::clamp<std::int64_t>(products / kAttendGrain, 1, threads_.size());
  const Call call{q, k, v, out, cache, sequences, scale, useful};
  append(call);
  threads_.parallel_for(useful, 1, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t share = begin; share < end; ++share) attend_share(call, share);
  });
}

void Attention::append(const Call& call) {
  const CpuKvStorage& cache = call.cache;
  const std::int64_t dim = cache.head_dim(), block_tokens = cache.block_tokens();
  // By heads, so that no two threads write into one cache line of transposed keys.
  const std::int64_t grain = kAppendGrain / std::max<std::int64_t>(call.q.rows() * dim, 1) + 1;
  threads_.parallel_for(cache.n_head(), grain, [&](std::int64_t begin, std::int64_t end, int) {
    for (const SequenceRows& s : call.sequences) {
      for (std::int64_t i = 0; i < s.n_rows; ++i) {
        const std::int64_t position = s.start + i, token = position % block_tokens;
        const std::int64_t block = s.blocks[static_cast<std::size_t>(position / block_tokens)];
        for (std::int64_t head = begin; head < end; ++head) {
          const std::int64_t base = block * cache.block_floats() + head * cache.head_floats();
          const float* key = call.k.row(s.first_row + i) + head * dim;
          const float* value = call.v.row(s.first_row + i) + head * dim;
          float* keys = cache.keys() + base + token;
          for (std::int64_t d = 0; d < dim; ++d) keys[d * block_tokens] = key[d];
          std::copy_n(value, dim, cache.values() + base + token * dim);
        }
      }
    }
  });
}

// Head by head, so that a head's keys and values stay in the cache for all rows; inside a head the
// shares take turns, because later rows of a prompt cost more than earlier ones.
void Attention::attend_share(const Call& call, std::int64_t share) {
  const CpuKvStorage& cache = call.cache;
  const std::int64_t dim = cache.head_dim();
  HeadQuery query;
  query.block_floats = cache.block_floats();
  query.block_tokens = cache.block_tokens();
  query.head_dim = dim;
  query.scale = call.scale;
  query.scores = scratch_.data() + share * scratch_floats_;
  std::int64_t turn = 0;
  for (std::int64_t head = 0; head < cache.n_head(); ++head) {
    query.keys = cache.keys() + head * cache.head_floats();
    query.values = cache.values() + head * cache.head_floats();
    for (const SequenceRows& s : call.sequences) {
      query.blocks = s.blocks;
      for (std::int64_t i = 0; i < s.n_rows; ++i) {
        if (turn++ % call.shares != share) continue;
        query.q = call.q.row(s.first_row + i) + head * dim;
        query.out = call.out.row(s.first_row + i) + head * dim;
        query.tokens = s.start + i + 1;
        attend(query);
      }
    }
  }
}

}  // namespace shardlm
