// Whole passes: padded to buckets, recorded once, replayed with the inputs of each step.
#include "backend/cuda/pass_runner.h"

#include <chrono>
#include <future>

#include "base/error.h"
#include "tests/gpu/backend/one_layer.h"
#include "tests/gpu/doubles/doubles.h"

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

/// Gives up the first wait that it is asked about.
class GivesUp final : public StreamWatch {
 public:
  void while_waiting(double) override { throw std::runtime_error("given up"); }
};

// New buffers for a longer step replace those that the device may still read. Freeing memory would
// wait for that without end if the device waits for a rank that is gone: the wait must be one that
// a communicator can give up.
TEST(Passes, ThatNeedNewBuffersWaitForTheOldOnesWatchfully) {
  CudaBackend backend({});
  OneLayer model(backend);
  Texts texts(1);
  const auto pass = [&](const Step& s) { return model.forward(s); };
  backend.run_pass(texts.next(1, 1, false), pass);
  backend.synchronize();
  // A wait that nobody can give up fails the test after 5 s, it does not hold up the run.
  std::promise<void> done;
  doubles::enqueue(
      backend.stream().get(), "a peer that is gone",
      [ended = done.get_future().share()] { ended.wait_for(std::chrono::seconds(5)); });
  GivesUp watch;
  backend.stream().set_watch(&watch);
  EXPECT_THROW(backend.run_pass(texts.next(1, 500, false), pass), std::runtime_error);
  backend.stream().set_watch(nullptr);
  done.set_value();
}

}  // namespace
}  // namespace shardlm::cuda
