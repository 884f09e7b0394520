// The loop of generation takes nothing from the heap for a step of decoding, from the scheduler to
// the model and back to the sampler.
#include <gtest/gtest.h>

#include "backend/cpu/cpu_backend.h"
#include "comm/self_communicator.h"
#include "engine/bench.h"
#include "engine/generate.h"
#include "model/fake_weights.h"
#include "tests/support/counted_news.h"

namespace shardlm {
namespace {

ModelConfig small_config() {
  ModelConfig c;
  c.family = "gpt2";
  c.n_layer = 2;
  c.n_embd = 64;
  c.n_head = 4;
  c.n_inner = 256;
  c.n_positions = 256;
  c.vocab_size = 301;
  return c;
}

class SteadyGeneration : public testing::TestWithParam<int> {
 protected:
  // Allocations of a run of so many decoding steps.
  std::int64_t news_of(std::int64_t steps, std::int64_t batch) {
    const BenchTest test{BenchTest::Kind::decode, steps, batch};
    const std::int64_t before = news();
    EXPECT_GT(run_bench_test(coordinator_, test, setup_).seconds(), 0);
    return news() - before;
  }

  ModelConfig config_ = small_config();
  BenchSetup setup_{.n_positions = config_.n_positions, .vocab_size = config_.vocab_size};
  std::unique_ptr<Backend> backend_ = make_cpu_backend(GetParam());
  SelfCommunicator comm_{*backend_};
  Tap silent_;
  Context context_{*backend_, comm_, silent_};
  FakeWeights weights_{config_};
  std::unique_ptr<Model> model_ = make_model(config_, weights_, context_);
  Executor executor_{context_, *model_, model_->make_cache(30, setup_.block_tokens),
                     std::vector<std::uint8_t>(301, 1)};
  Coordinator coordinator_{comm_, executor_};
};

TEST_P(SteadyGeneration, AllocatesNothingAStep) {
  for (const std::int64_t batch : {1, 3}) {
    news_of(200, batch);  // what is kept from run to run
    EXPECT_EQ(news_of(10, batch), news_of(200, batch)) << batch << " sequences";
  }
}

INSTANTIATE_TEST_SUITE_P(Threads, SteadyGeneration, testing::Values(1, 2));

}  // namespace
}  // namespace shardlm
