// Whole passes: padded to buckets, recorded once, replayed with the inputs of each step.
#include "backend/cuda/pass_runner.h"

#include <cmath>

#include "base/error.h"
#include "tests/gpu/backend/device_backend.h"

namespace shardlm::cuda {
namespace {

TEST(Buckets, OfRowsAddAHalfAtMost) {
  std::vector<std::int64_t> buckets;
  for (std::int64_t n = 1; n <= 64; ++n) {
    const std::int64_t bucket = row_bucket(n);
    EXPECT_GE(bucket, n);
    EXPECT_LE(bucket * 2, n * 3);
    if (buckets.empty() || buckets.back() != bucket) buckets.push_back(bucket);
  }
  EXPECT_EQ(buckets, (std::vector<std::int64_t>{1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64}));
}

TEST(Buckets, OfTokensArePowersOfTwo) {
  EXPECT_EQ(token_bucket(0), 128);
  EXPECT_EQ(token_bucket(128), 128);
  EXPECT_EQ(token_bucket(129), 256);
  EXPECT_EQ(token_bucket(1024), 1024);
}

/// A model of one attention layer: logits = attention(embedding + position) table^T.
class OneLayer {
 public:
  static constexpr std::int64_t kIds = 40, kWidth = 32, kHeads = 2, kBlock = 16;

  explicit OneLayer(CudaBackend& backend)
      : backend_(backend),
        table_(make_matrix(backend, random_matrix(kIds, kWidth, 1), true)),
        positions_(upload(backend, random_matrix(600, kWidth, 2))),
        cache_(backend.make_kv_storage(kHeads, kWidth / kHeads, 80, kBlock)) {}

  Tensor forward(const Step& step) {
    ++forwards;
    Tensor x = backend_.allocate(step.ids.size(), kWidth);
    backend_.gather_rows(positions_, step.positions, x);
    const Tensor e = backend_.allocate(step.ids.size(), kWidth);
    backend_.embed(*table_, step.ids, 0, e);
    backend_.update_residual({&e, 1}, {.residual = &x});
    const Tensor h = backend_.allocate(step.ids.size(), kWidth);
    backend_.attention(x, x, x, *cache_, step.sequences, 0.3F, h);
    const Tensor picked = backend_.allocate(step.logit_rows.size(), kWidth);
    backend_.gather_rows(h, step.logit_rows, picked);
    Tensor logits = backend_.allocate(step.logit_rows.size(), kIds);
    backend_.matmul(picked, *table_, nullptr, logits);
    return logits;
  }

  int forwards = 0;

 private:
  CudaBackend& backend_;
  std::unique_ptr<WeightMatrix> table_;
  Tensor positions_;
  std::unique_ptr<KvStorage> cache_;
};

/// A few sequences that grow by a token a step; each owns 20 blocks.
class Texts {
 public:
  explicit Texts(std::size_t n) {
    for (std::size_t s = 0; s < n; ++s) {
      std::vector<std::int32_t> blocks;
      for (int b = 0; b < 20; ++b)
        blocks.push_back(static_cast<std::int32_t>(b * 4 + (s + static_cast<std::size_t>(b)) % 4));
      blocks_.push_back(blocks);
    }
  }
  /// The next step of the first `n` sequences: `tokens` new ones each.
  Step next(std::size_t n, std::int64_t tokens, bool repeatable) {
    ids_.clear();
    positions_.clear();
    rows_.clear();
    logit_rows_.clear();
    for (std::size_t s = 0; s < n; ++s) {
      rows_.push_back({.first_row = std::ssize(ids_),
                       .n_rows = tokens,
                       .start = length_[s],
                       .blocks = blocks_[s]});
      for (std::int64_t i = 0; i < tokens; ++i) {
        positions_.push_back(static_cast<std::int32_t>(length_[s]));
        ids_.push_back(static_cast<std::int32_t>((length_[s]++ * 7 + static_cast<std::int64_t>(s)) %
                                                 OneLayer::kIds));
      }
      logit_rows_.push_back(static_cast<std::int32_t>(ids_.size() - 1));
    }
    return {.ids = ids_,
            .positions = positions_,
            .sequences = rows_,
            .logit_rows = logit_rows_,
            .repeatable = repeatable};
  }

 private:
  std::vector<std::vector<std::int32_t>> blocks_;
  std::array<std::int64_t, 4> length_{};
  std::vector<std::int32_t> ids_, positions_, logit_rows_;
  std::vector<SequenceRows> rows_;
};

/// The logits of a prompt and `steps` further tokens of `n` sequences.
std::vector<std::vector<float>> run(CudaBackend& backend, OneLayer& model, std::size_t n, int steps,
                                    std::int64_t prompt = 5) {
  Texts texts(n);
  std::vector<std::vector<float>> logits;
  Tensor last;
  for (int i = 0; i <= steps; ++i) {
    const Step step = texts.next(n, i == 0 ? prompt : 1, true);
    last = Tensor();
    last = backend.run_pass(step, [&](const Step& s) { return model.forward(s); });
    EXPECT_GE(last.rows(), static_cast<std::int64_t>(n));
    logits.push_back(download(backend, last.row_range(0, static_cast<std::int64_t>(n))).data);
  }
  return logits;
}

class Passes : public testing::TestWithParam<std::size_t> {};

TEST_P(Passes, ReplayedGiveTheLogitsOfEnqueuedOnes) {
  CudaBackend eager({.graphs = false}), recorded({});
  OneLayer eager_model(eager), recorded_model(recorded);
  const auto truth = run(eager, eager_model, GetParam(), 12);
  EXPECT_EQ(eager_model.forwards, 13);
  const auto found = run(recorded, recorded_model, GetParam(), 12);
  EXPECT_EQ(recorded_model.forwards, 3) << "the prompt, the first token, the recording";
  EXPECT_EQ(found, truth);
}

INSTANTIATE_TEST_SUITE_P(Sequences, Passes, testing::Values(1, 2, 3));

TEST(Passes, GrowingTextsAreRecordedAnewAtEachPowerOfTwo) {
  CudaBackend eager({.graphs = false}), recorded({});
  OneLayer eager_model(eager), recorded_model(recorded);
  const auto truth = run(eager, eager_model, 1, 8, 124);
  EXPECT_EQ(run(recorded, recorded_model, 1, 8, 124), truth);
  EXPECT_EQ(recorded_model.forwards, 1 + 2 + 2);  // up to 128 tokens, then up to 256
}

TEST(Passes, SettleToNoAllocation) {
  CudaBackend backend({});
  OneLayer model(backend);
  run(backend, model, 2, 4);
  const std::size_t before = backend.allocations();
  run(backend, model, 2, 6);
  EXPECT_EQ(backend.allocations(), before);
}

TEST(Passes, ThatSomeoneListensToAreNeverRecorded) {
  CudaBackend backend({});
  OneLayer model(backend);
  Texts texts(1);
  for (int i = 0; i < 5; ++i) {
    backend.run_pass(texts.next(1, 1, false), [&](const Step& s) { return model.forward(s); });
  }
  EXPECT_EQ(model.forwards, 5);
}

TEST(Passes, AreRecordedAgainOnceForgotten) {
  CudaBackend backend({});
  OneLayer model(backend);
  run(backend, model, 1, 4);
  const int before = model.forwards;
  backend.forget_passes();
  run(backend, model, 1, 4);
  EXPECT_EQ(model.forwards, before + 3);
}

TEST(Passes, ThatThrowWhileTheyAreRecordedLeaveTheStreamUsable) {
  CudaBackend backend({});
  OneLayer model(backend);
  Texts texts(1);
  int calls = 0;
  const auto pass = [&](const Step& s) {
    if (++calls == 2) throw std::runtime_error("in the middle");
    return model.forward(s);
  };
  const auto next = [&] { return backend.run_pass(texts.next(1, 1, true), pass); };
  next();
  EXPECT_THROW(next(), std::runtime_error);
  EXPECT_FALSE(backend.recording());
  EXPECT_EQ(download(backend, next()).cols, OneLayer::kIds);
}

TEST(Passes, MayNotCopyWhileTheyAreRecorded) {
  CudaBackend backend({});
  OneLayer model(backend);
  Texts texts(1);
  const auto pass = [&](const Step& s) {
    if (backend.recording()) {
      std::vector<float> one(1);
      EXPECT_THROW(backend.download(backend.allocate(1, 1), one), Error);
      EXPECT_THROW(backend.upload(one, backend.allocate(1, 1)), Error);
      EXPECT_THROW(backend.gather_rows(backend.allocate(1, 1), std::vector<std::int32_t>{0},
                                       backend.allocate(1, 1)),
                   Error);
    }
    return model.forward(s);
  };
  for (int i = 0; i < 3; ++i) backend.run_pass(texts.next(1, 1, true), pass);
}

}  // namespace
}  // namespace shardlm::cuda
