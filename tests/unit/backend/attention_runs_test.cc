// Attention over several runs of keys, in every type of the KV cache, against the definition.
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "backend/cpu/attention.h"
#include "backend/cpu/host_buffer.h"
#include "base/error.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

constexpr float kNaN = std::numeric_limits<float>::quiet_NaN();
constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i8};

Tensor tensor_of(const HostMatrix& m, std::int64_t first, std::int64_t rows) {
  const Tensor t(make_host_buffer(static_cast<std::size_t>(rows * m.cols) * sizeof(float)), rows,
                 m.cols);
  std::copy_n(m.data.begin() + first * m.cols, rows * m.cols, t.row(0));
  return t;
}

/// What the cache may hold of a head's key or value, by the scalar code of base/ and, for int8, by
/// the definition of its scale.
std::vector<double> as_stored(std::span<const float> x, DType type) {
  std::vector<double> stored(x.begin(), x.end());
  if (type == DType::i8) {
    float top = 0;
    for (const float value : x) top = std::max(top, std::abs(value));
    const float scale = top / 127, inverse = 127 / top;
    for (std::size_t i = 0; i < x.size(); ++i) {
      stored[i] = double{std::nearbyint(x[i] * inverse)} * scale;
    }
  } else if (type != DType::f32) {
    std::vector<std::byte> narrow(x.size() * 2);
    std::vector<float> wide(x.size());
    from_float32(type, x, narrow);
    to_float32(type, narrow, wide);
    stored.assign(wide.begin(), wide.end());
  }
  return stored;
}

struct Prompt {
  std::int64_t dim, heads;
  HostMatrix q, k, v, out;
  std::vector<std::int32_t> blocks;

  Prompt(std::int64_t tokens, std::int64_t n_heads, std::int64_t head_dim, unsigned seed,
         std::int32_t first_block)
      : dim(head_dim),
        heads(n_heads),
        q(random_floats(tokens, n_heads * head_dim, seed)),
        k(random_floats(tokens, n_heads * head_dim, seed + 1)),
        v(random_floats(tokens, n_heads * head_dim, seed + 2)),
        out(tokens, n_heads * head_dim) {
    for (std::int64_t t = 0; t < tokens; t += 16) {  // backwards, with gaps
      blocks.insert(blocks.begin(), first_block + static_cast<std::int32_t>(t / 8));
    }
  }
};

/// The prompts' tokens in steps of at most `chunk`, all in the same steps.
void attend(int threads, CpuKvStorage& cache, std::int64_t chunk,
            const std::vector<Prompt*>& prompts) {
  ThreadPool pool(threads);
  Attention attention(pool);
  std::int64_t longest = 0;
  for (const Prompt* p : prompts) longest = std::max(longest, p->q.rows);
  for (std::int64_t start = 0; start < longest; start += chunk) {
    HostMatrix q(0, prompts[0]->q.cols), k = q, v = q;
    std::vector<SequenceRows> rows;
    for (const Prompt* p : prompts) {
      const std::int64_t n = std::clamp<std::int64_t>(p->q.rows - start, 0, chunk);
      rows.push_back({q.rows, n, start, p->blocks});
      const auto add = [&](HostMatrix& to, const HostMatrix& from) {
        const auto begin = from.data.begin() + std::min(start, from.rows) * from.cols;
        to.data.insert(to.data.end(), begin, begin + n * from.cols);
        to.rows += n;
      };
      add(q, p->q);
      add(k, p->k);
      add(v, p->v);
    }
    const Tensor out = tensor_of(q, 0, q.rows);
    attention.run(tensor_of(q, 0, q.rows), tensor_of(k, 0, q.rows), tensor_of(v, 0, q.rows), cache,
                  rows, 0.4F, out);
    for (std::size_t i = 0; i < prompts.size(); ++i) {
      std::copy_n(out.row(0) + rows[i].first_row * q.cols, rows[i].n_rows * q.cols,
                  prompts[i]->out.data.begin() + std::min(start, prompts[i]->q.rows) * q.cols);
    }
  }
}

/// Row t of head h in double, with a bound on float32's error.
void expect_row(const Prompt& p, std::int64_t t, std::int64_t h, DType type) {
  const auto column = static_cast<std::size_t>(h * p.dim), dim = static_cast<std::size_t>(p.dim);
  std::vector<double> weights;
  double score_error = 0, largest = 0, total = 0;
  for (std::int64_t j = 0; j <= t; ++j) {
    const std::vector<double> key = as_stored(p.k.row(j).subspan(column, dim), type);
    double score = 0, size = 0;
    for (std::size_t d = 0; d < dim; ++d) {
      const double term = double{p.q.row(t)[column + d]} * key[d] * double{0.4F};
      score += term;
      size += std::abs(term);
    }
    score_error = std::max(score_error, static_cast<double>(p.dim + 6) * kRounding * size);
    largest = std::max(largest, std::abs(score));
    weights.push_back(std::exp(score));
    total += weights.back();
  }
  // As in attention_test.cc; joining a run costs two exponentials and three roundings more.
  const double runs = static_cast<double>(t / kRunTokens);
  const double relative = 2 * (2 * (score_error + largest * kRounding) + 4 * kRounding) +
                          (static_cast<double>(t + 8) + runs * 2 * 8) * kRounding;
  std::vector<double> want(dim), size(dim);
  for (std::int64_t j = 0; j <= t; ++j) {
    const std::vector<double> value = as_stored(p.v.row(j).subspan(column, dim), type);
    for (std::size_t d = 0; d < dim; ++d) {
      const double term = weights[static_cast<std::size_t>(j)] / total * value[d];
      want[d] += term;
      size[d] += std::abs(term);
    }
  }
  for (std::size_t d = 0; d < dim; ++d) {
    ASSERT_NEAR(p.out.row(t)[column + d], want[d], relative * size[d])
        << name(type) << ", head size " << dim << ", row " << t << ", column " << d;
  }
}

class AttentionRunsTest : public OnEverySimdTarget {};
SHARDLM_ON_EVERY_SIMD_TARGET(AttentionRunsTest);

TEST_P(AttentionRunsTest, IsTheDefinitionInEveryTypeAtOddShapes) {
  constexpr std::int64_t kShapes[][2] = {{1, 600},  {3, 257}, {16, 256}, {20, 255},
                                         {64, 600}, {65, 33}, {80, 32},  {128, 257},
                                         {200, 31}, {64, 1},  {256, 35}};
  for (const DType type : kTypes) {
    for (const auto [dim, tokens] : kShapes) {
      const std::int64_t heads = dim <= 20 ? 2 : 1;
      CpuKvStorage cache(heads, dim, 80, 16, type);
      Prompt p(tokens, heads, dim, static_cast<unsigned>(dim + tokens), 1);
      attend(2, cache, tokens, {&p});
      for (const std::int64_t t : {std::int64_t{0}, tokens / 3, tokens / 2, tokens - 1}) {
        expect_row(p, t, t % heads, type);
      }
    }
  }
}

TEST_P(AttentionRunsTest, BitsDoNotDependOnCutsNeighboursBlocksOrThreads) {
  const std::int64_t heads = 2, dim = 5, tokens = 300;
  for (const DType type : kTypes) {
    const auto run = [&](int threads, std::int64_t block_tokens, std::int64_t chunk,
                         bool neighbours) {
      CpuKvStorage cache(heads, dim, 120, block_tokens, type);
      Prompt p(tokens, heads, dim, 1, 0);
      Prompt before(70, heads, dim, 5, 81), behind(270, heads, dim, 9, 82);
      for (std::size_t i = 0; i < behind.blocks.size(); ++i) {  // the odd ones, p has the even
        behind.blocks[i] = static_cast<std::int32_t>(2 * i + 1);
      }
      if (neighbours) {
        attend(threads, cache, chunk, {&before, &p, &behind});
      } else {
        attend(threads, cache, chunk, {&p});
      }
      return p.out.data;
    };
    const std::vector<float> whole = run(1, 16, tokens, false);
    for (const std::int64_t chunk : {1, 7, 250, 299}) {
      EXPECT_TRUE(same_bits(run(1, 16, chunk, false), whole)) << name(type) << " " << chunk;
    }
    for (const int threads : {2, 3, 4, 5}) {
      EXPECT_TRUE(same_bits(run(threads, 16, tokens, false), whole)) << name(type) << threads;
      EXPECT_TRUE(same_bits(run(threads, 16, 90, true), whole)) << name(type) << " " << threads;
    }
    EXPECT_TRUE(same_bits(run(5, 16, 1, true), whole)) << name(type);
    EXPECT_TRUE(same_bits(run(3, 48, 1, false), whole)) << name(type);
    EXPECT_TRUE(same_bits(run(2, 64, 100, false), whole)) << name(type);
  }
}

TEST_P(AttentionRunsTest, NaNsShowInEveryType) {
  const std::int64_t tokens = 300;
  for (const DType type : kTypes) {
    for (HostMatrix Prompt::*which : {&Prompt::q, &Prompt::k, &Prompt::v}) {
      for (const float bad : {kNaN, std::numeric_limits<float>::infinity()}) {
        CpuKvStorage cache(1, 20, 40, 16, type);
        Prompt p(tokens, 1, 20, 3, 0);
        (p.*which).at(260, 3) = bad;
        attend(1, cache, 50, {&p});
        for (std::int64_t t = 0; t < tokens; ++t) {
          const bool sees = which == &Prompt::q ? t == 260 : t >= 260;
          const float found = p.out.at(t, 3);
          const bool shown = !std::isfinite(found);
          // An infinite key may leave a row alone that gives it no weight.
          if (sees && !(which == &Prompt::k && std::isinf(bad))) {
            ASSERT_TRUE(shown) << name(type) << " " << t;
          }
          if (!sees) {
            ASSERT_FALSE(shown) << name(type) << " " << t;
          }
        }
      }
    }
  }
}

TEST_P(AttentionRunsTest, ExponentialsAgainstDouble) {
  std::vector<float> x;
  for (int i = 0; i < 125'000; ++i) x.push_back(static_cast<float>(i) * -0.001F);
  const std::vector<float> from = x;
  exp2_all(x);
  for (std::size_t i = 0; i < x.size(); ++i) {
    const double want = std::exp2(double{from[i]});
    ASSERT_NEAR(x[i], want, want * 2 * kRounding) << from[i];
  }
  std::vector<float> ends = {0,   -0.0F, -125.5F, -1e30F, -std::numeric_limits<float>::infinity(),
                             kNaN};
  exp2_all(ends);
  EXPECT_EQ(ends[0], 1);
  EXPECT_EQ(ends[1], 1);
  for (const std::size_t i : {2U, 3U, 4U}) EXPECT_EQ(ends[i], 0) << i;
  EXPECT_TRUE(std::isnan(ends[5]));
}

TEST(KvTypes, BytesAndRefusals) {
  // A head's block of 32 tokens of 64: keys, values; with int8 two scales a token.
  const auto bytes = [](DType type) { return CpuKvStorage(3, 64, 5, 32, type).bytes(); };
  EXPECT_EQ(bytes(DType::f32), 5U * 3 * 2 * 32 * 64 * 4);
  EXPECT_EQ(bytes(DType::bf16), 5U * 3 * 2 * 32 * 64 * 2);
  EXPECT_EQ(bytes(DType::f16), 5U * 3 * 2 * 32 * 64 * 2);
  EXPECT_EQ(bytes(DType::i8), 5U * 3 * 2 * 32 * (64 + 4));
  EXPECT_THROW(CpuKvStorage(1, 4, 1, 16, DType::f64), Error);
}

}  // namespace
}  // namespace shardlm
