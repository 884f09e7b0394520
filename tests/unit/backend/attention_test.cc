#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <numeric>

#include "base/error.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();

/// The queries, keys and values of one sequence, [tokens, heads * dim] each, and its blocks.
struct Sequence {
  HostMatrix q, k, v;
  std::vector<std::int32_t> blocks;
  HostMatrix out;

  Sequence(std::int64_t tokens, std::int64_t width, unsigned seed,
           std::vector<std::int32_t> kv_blocks)
      : q(random_floats(tokens, width, seed)),
        k(random_floats(tokens, width, seed + 1)),
        v(random_floats(tokens, width, seed + 2)),
        blocks(std::move(kv_blocks)),
        out(tokens, width) {}
};

/// Tokens [start, start + rows) of a sequence: its part of a step.
struct Chunk {
  Sequence* sequence;
  std::int64_t start, rows;
};

/// One step of the back end; the results go to each sequence's `out`.
void step(Backend& backend, KvStorage& cache, float scale, const std::vector<Chunk>& chunks) {
  std::int64_t total = 0;
  for (const Chunk& c : chunks) total += c.rows;
  const std::int64_t width = cache.n_head() * cache.head_dim();
  HostMatrix q(total, width), k(total, width), v(total, width);
  std::vector<SequenceRows> rows;
  std::int64_t first = 0;
  for (const Chunk& c : chunks) {
    rows.push_back({first, c.rows, c.start, c.sequence->blocks});
    for (std::int64_t i = 0; i < c.rows; ++i, ++first) {
      for (std::int64_t j = 0; j < width; ++j) {
        q.at(first, j) = c.sequence->q.at(c.start + i, j);
        k.at(first, j) = c.sequence->k.at(c.start + i, j);
        v.at(first, j) = c.sequence->v.at(c.start + i, j);
      }
    }
  }
  const Tensor out = backend.allocate(total, width);
  backend.attention(upload(backend, q), upload(backend, k), upload(backend, v), cache, rows, scale,
                    out);
  const HostMatrix found = download(backend, out);
  for (std::size_t s = 0; s < chunks.size(); ++s) {
    const Chunk& c = chunks[s];
    for (std::int64_t i = 0; i < c.rows; ++i) {
      const auto from = found.row(rows[s].first_row + i);
      std::ranges::copy(from, c.sequence->out.data.begin() + (c.start + i) * width);
    }
  }
}

/// The definition, in double, with a bound on float32's error for each element.
void expect_attention(const Sequence& s, std::int64_t heads, std::int64_t dim, double scale) {
  for (std::int64_t t = 0; t < s.q.rows; ++t) {
    for (std::int64_t h = 0; h < heads; ++h) {
      std::vector<double> weights;
      double score_error = 0, largest = 0, total = 0;
      for (std::int64_t j = 0; j <= t; ++j) {
        double score = 0, size = 0;
        for (std::int64_t d = h * dim; d < (h + 1) * dim; ++d) {
          score += double{s.q.at(t, d)} * s.k.at(j, d) * scale;
          size += std::abs(double{s.q.at(t, d)} * s.k.at(j, d) * scale);
        }
        score_error = std::max(score_error, static_cast<double>(dim + 4) * kRounding * size);
        largest = std::max(largest, std::abs(score));
        weights.push_back(std::exp(score));
        total += weights.back();
      }
      // A weight's relative error is the score's absolute one (its own and the maximum's), an
      // exponential of 2 roundings, and one rounding for each term of the two sums.
      const double relative = 2 * (2 * (score_error + largest * kRounding) + 4 * kRounding) +
                              static_cast<double>(t + 6) * kRounding;
      for (std::int64_t d = h * dim; d < (h + 1) * dim; ++d) {
        double want = 0, size = 0;
        for (std::int64_t j = 0; j <= t; ++j) {
          const double term = weights[static_cast<std::size_t>(j)] / total * s.v.at(j, d);
          want += term;
          size += std::abs(term);
        }
        ASSERT_NEAR(s.out.at(t, d), want, relative * size) << "row " << t << ", column " << d;
      }
    }
  }
}

class AttentionTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(AttentionTest);

TEST_P(AttentionTest, IsTheDefinitionForAnyHeadSize) {
  const auto backend = make_cpu_backend(2);
  for (const std::int64_t dim : {1, 16, 20, 64, 80}) {
    for (const std::int64_t block_tokens : {16, 32}) {
      const std::int64_t heads = 3;
      const auto cache = backend->make_kv_storage(heads, dim, 8, block_tokens);
      Sequence a(70, heads * dim, 1, {6, 0, 3, 7, 1}), b(5, heads * dim, 9, {2});
      const auto scale = static_cast<float>(1 / std::sqrt(static_cast<double>(dim)));
      step(*backend, *cache, scale, {{&a, 0, 70}, {&b, 0, 5}});
      expect_attention(a, heads, dim, scale);
      expect_attention(b, heads, dim, scale);
    }
  }
}

TEST_P(AttentionTest, ARowsBitsDoNotDependOnHowTokensWereCutIntoSteps) {
  const std::int64_t heads = 2, dim = 20;
  const auto run = [&](int threads, std::int64_t block_tokens, std::int64_t chunk) {
    const auto backend = make_cpu_backend(threads);
    const auto cache = backend->make_kv_storage(heads, dim, 8, block_tokens);
    Sequence s(67, heads * dim, 1, {5, 2, 7, 0, 1});
    for (std::int64_t start = 0; start < 67; start += chunk) {
      step(*backend, *cache, 0.3F, {{&s, start, std::min<std::int64_t>(chunk, 67 - start)}});
    }
    return s.out.data;
  };
  const std::vector<float> whole = run(1, 16, 67);
  for (const std::int64_t chunk : {1, 3, 16, 17, 66}) {
    EXPECT_TRUE(same_bits(run(1, 16, chunk), whole)) << chunk;
  }
  EXPECT_TRUE(same_bits(run(3, 16, 67), whole));
  EXPECT_TRUE(same_bits(run(2, 16, 5), whole));
  EXPECT_TRUE(same_bits(run(2, 32, 20), whole));
}

TEST_P(AttentionTest, SequencesDoNotSeeEachOther) {
  const std::int64_t heads = 3, dim = 16;
  const auto backend = make_cpu_backend(2);
  const auto make = [&] {
    return std::vector<Sequence>{Sequence(40, heads * dim, 1, {0, 1, 2}),
                                 Sequence(3, heads * dim, 11, {3}),
                                 Sequence(17, heads * dim, 21, {9, 8})};
  };
  std::vector<Sequence> alone = make(), batch = make(), turned = make();
  {
    const auto cache = backend->make_kv_storage(heads, dim, 10, 16);
    for (Sequence& s : alone) step(*backend, *cache, 0.25F, {{&s, 0, s.q.rows}});
  }
  {  // ragged, with an entry that is finished and one whose prompt comes in two chunks
    const auto cache = backend->make_kv_storage(heads, dim, 10, 16);
    step(*backend, *cache, 0.25F, {{&batch[0], 0, 31}, {&batch[1], 0, 3}, {&batch[2], 0, 16}});
    step(*backend, *cache, 0.25F, {{&batch[0], 31, 9}, {&batch[1], 3, 0}, {&batch[2], 16, 1}});
  }
  {  // another order
    const auto cache = backend->make_kv_storage(heads, dim, 10, 16);
    step(*backend, *cache, 0.25F, {{&turned[2], 0, 17}, {&turned[0], 0, 40}, {&turned[1], 0, 3}});
  }
  for (std::size_t i = 0; i < 3; ++i) {
    EXPECT_TRUE(same_bits(batch[i].out.data, alone[i].out.data)) << i;
    EXPECT_TRUE(same_bits(turned[i].out.data, alone[i].out.data)) << i;
  }
}

TEST_P(AttentionTest, EmptyStepsAndEmptySequencesDoNothing) {
  const auto backend = make_cpu_backend(2);
  const auto cache = backend->make_kv_storage(2, 4, 2, 16);
  HostMatrix frame(2, 8);
  std::ranges::fill(frame.data, 77.0F);
  const Tensor x = upload(*backend, frame), out = upload(*backend, frame);
  backend->attention(x, x, x, *cache, {}, 1, out);
  const SequenceRows none{.first_row = 2, .n_rows = 0, .start = 5, .blocks = {}};
  backend->attention(x, x, x, *cache, std::span(&none, 1), 1, out);
  EXPECT_EQ(download(*backend, out).data, frame.data);
}

TEST_P(AttentionTest, NoHeads) {
  const auto backend = make_cpu_backend(1);
  const auto cache = backend->make_kv_storage(0, 64, 4, 16);
  EXPECT_EQ(cache->bytes(), 0U);
  const Tensor x = backend->allocate(3, 0);
  const std::vector<std::int32_t> blocks = {0};
  const SequenceRows rows{.first_row = 0, .n_rows = 3, .start = 0, .blocks = blocks};
  EXPECT_NO_THROW(backend->attention(x, x, x, *cache, std::span(&rows, 1), 1, x));
}

/// The result in one head of one column for a last query of 1 and these keys and values.
float softmax_mean(const std::vector<float>& keys, const std::vector<float>& values) {
  const auto backend = make_cpu_backend(1);
  const auto cache = backend->make_kv_storage(1, 1, 1, 16);
  const auto tokens = std::ssize(keys);
  Sequence s(tokens, 1, 1, {0});
  std::ranges::fill(s.q.data, 1.0F);
  s.k.data = keys;
  s.v.data = values;
  step(*backend, *cache, 1, {{&s, 0, tokens}});
  return s.out.at(tokens - 1, 0);
}

TEST_P(AttentionTest, LargeScoresStayFinite) {
  EXPECT_EQ(softmax_mean({1000, 1000, -1000}, {1, 0, 7}), 0.5F);
  EXPECT_EQ(softmax_mean({1000, 1000, -1000}, {0, 1, 7}), 0.5F);
  EXPECT_EQ(softmax_mean({-1e30F, -1e30F}, {3, 5}), 4.0F);
  const auto backend = make_cpu_backend(1);
  for (const float scale : {1.0F, 0.125F}) {  // q . k = 640,000
    const auto cache = backend->make_kv_storage(1, 64, 1, 16);
    Sequence s(4, 64, 1, {0});
    std::ranges::fill(s.q.data, 100.0F);
    std::ranges::fill(s.k.data, 100.0F);
    for (std::int64_t t = 0; t < 4; ++t) {
      for (std::int64_t d = 0; d < 64; ++d) s.v.at(t, d) = static_cast<float>(t);
    }
    step(*backend, *cache, scale, {{&s, 0, 4}});
    for (std::int64_t d = 0; d < 64; ++d) {
      EXPECT_EQ(s.out.at(1, d), 0.5F);  // mean of 0 and 1
      EXPECT_EQ(s.out.at(3, d), 1.5F);
    }
  }
}

TEST_P(AttentionTest, NonFiniteValuesAreNotHidden) {
  const std::int64_t heads = 2, dim = 4, tokens = 20;
  const auto backend = make_cpu_backend(1);
  const auto nan_rows = [&](HostMatrix Sequence::*which, std::int64_t token, float value) {
    const auto cache = backend->make_kv_storage(heads, dim, 2, 16);
    Sequence s(tokens, heads * dim, 1, {1, 0});
    (s.*which).at(token, dim + 1) = value;  // in head 1
    step(*backend, *cache, 0.5F, {{&s, 0, tokens}});
    std::vector<bool> bad;
    for (std::int64_t t = 0; t < tokens; ++t) {
      for (std::int64_t d = 0; d < dim; ++d) EXPECT_FALSE(std::isnan(s.out.at(t, d)));
      bad.push_back(std::isnan(s.out.at(t, dim + 1)));
    }
    const bool at_token = bad[static_cast<std::size_t>(token)];
    return std::pair(std::ranges::count(bad, true), at_token);
  };
  EXPECT_EQ(nan_rows(&Sequence::q, 7, kNaN), std::pair(std::ptrdiff_t{1}, true));
  EXPECT_EQ(nan_rows(&Sequence::k, 7, kNaN), std::pair(std::ptrdiff_t{13}, true));
  EXPECT_EQ(nan_rows(&Sequence::v, 7, kNaN), std::pair(std::ptrdiff_t{13}, true));
  EXPECT_EQ(nan_rows(&Sequence::q, 7, std::numeric_limits<float>::infinity()),
            std::pair(std::ptrdiff_t{1}, true));
}

TEST_P(AttentionTest, WhatABlockHeldBeforeDoesNotLeak) {
  const std::int64_t heads = 1, dim = 20;
  const auto backend = make_cpu_backend(1);
  const auto used = backend->make_kv_storage(heads, dim, 2, 16);
  const auto fresh = backend->make_kv_storage(heads, dim, 2, 16);
  Sequence bad(32, dim, 1, {0, 1}), reused(18, dim, 11, {1, 0}), clean(18, dim, 11, {1, 0});
  std::ranges::fill(bad.k.data, kNaN);
  std::ranges::fill(bad.v.data, kNaN);
  step(*backend, *used, 1, {{&bad, 0, 32}});
  step(*backend, *used, 1, {{&reused, 0, 18}});
  step(*backend, *fresh, 1, {{&clean, 0, 18}});
  EXPECT_TRUE(same_bits(reused.out.data, clean.out.data));
}

TEST(Attention, RefusesWhatDoesNotFit) {
  const auto backend = make_cpu_backend(1);
  EXPECT_THROW(backend->make_kv_storage(1, 4, 2, 17), Error);
  const auto cache = backend->make_kv_storage(1, 4, 2, 16);
  const Tensor x = backend->allocate(2, 4);
  const std::vector<std::int32_t> good = {0, 1}, beyond = {0, 2}, negative = {-1, 0};
  const auto run = [&](const SequenceRows& rows) {
    backend->attention(x, x, x, *cache, std::span(&rows, 1), 1, x);
  };
  EXPECT_THROW(run({.first_row = 1, .n_rows = 2, .start = 0, .blocks = good}), Error);
  EXPECT_THROW(run({.first_row = 0, .n_rows = 2, .start = 31, .blocks = good}), Error);
  EXPECT_THROW(run({.first_row = 0, .n_rows = 2, .start = 15, .blocks = beyond}), Error);
  EXPECT_THROW(run({.first_row = 0, .n_rows = 2, .start = 0, .blocks = negative}), Error);
  EXPECT_NO_THROW(run({.first_row = 0, .n_rows = 2, .start = 14, .blocks = beyond}));
  EXPECT_THROW(backend->attention(x.columns(0, 3), x, x, *cache, {}, 1, x), Error);
}

}  // namespace
}  // namespace shardlm
