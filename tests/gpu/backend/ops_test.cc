// The ops of the CUDA back end beside those of the CPU back end, the reference (whose own tests
// hold it against plain loops and against PyTorch).
#include <cmath>

#include "backend/cpu/cpu_backend.h"
#include "base/error.h"
#include "tests/gpu/backend/device_backend.h"

namespace shardlm::cuda {
namespace {

/// Both sides of a comparison: values rounded to `dtype` on the way in, float32 within.
void expect_close(const HostMatrix& found, const HostMatrix& truth, double tolerance,
                  const char* what) {
  ASSERT_EQ(found.rows, truth.rows);
  ASSERT_EQ(found.cols, truth.cols);
  double worst = 0;
  for (std::size_t i = 0; i < found.data.size(); ++i) {
    const double gap = std::abs(double{found.data[i]} - truth.data[i]);
    if (!(gap <= worst)) worst = gap;
  }
  EXPECT_TRUE(worst <= tolerance) << what << ": off by " << worst << ", allowed " << tolerance;
}

class Ops : public testing::TestWithParam<DType> {
 protected:
  double epsilon() const { return epsilon_of(GetParam()); }
  CudaBackend gpu_{{.precision = all_of(GetParam())}};
  std::unique_ptr<Backend> cpu_ = make_cpu_backend(1);
};

TEST_P(Ops, EmbedAndGather) {
  const HostMatrix table = random_matrix(50, 24, 1, GetParam());
  const auto matrix = make_matrix(gpu_, table, true);
  const std::vector<std::int32_t> ids = {100, 149, 99, 150, -1, 120};
  const Tensor out = gpu_.allocate(6, 24);
  gpu_.embed(*matrix, ids, 100, out);
  const HostMatrix found = download(gpu_, out);
  for (std::int64_t t = 0; t < 6; ++t) {
    const std::int64_t row = ids[static_cast<std::size_t>(t)] - 100;
    for (std::int64_t c = 0; c < 24; ++c) {
      EXPECT_EQ(found.at(t, c), row >= 0 && row < 50 ? table.at(row, c) : 0.0F);
    }
  }
  const Tensor picked = gpu_.allocate_activation(2, 24);
  gpu_.gather_rows(upload(gpu_, table, true), std::vector<std::int32_t>{49, 0}, picked);
  EXPECT_EQ(download(gpu_, picked).at(0, 3), table.at(49, 3));
  EXPECT_EQ(download(gpu_, picked).at(1, 23), table.at(0, 23));
}

TEST_P(Ops, LayerNormAndResidualUpdate) {
  const HostMatrix x = random_matrix(3, 70, 1), a = random_matrix(3, 70, 2),
                   b = random_matrix(3, 70, 3), bias = random_matrix(1, 70, 4),
                   weight = random_matrix(1, 70, 5), shift = random_matrix(1, 70, 6);
  const auto run = [&](Backend& backend, HostMatrix& residual, HostMatrix& normed) {
    const LayerNormParams norm{upload(backend, weight), upload(backend, shift), 1e-5F};
    Tensor stream = upload(backend, x), add_bias = upload(backend, bias);
    Tensor out = backend.allocate_activation(3, 70);
    const std::vector<Tensor> addends = {upload(backend, a), upload(backend, b)};
    backend.update_residual(
        addends, {.bias = &add_bias, .residual = &stream, .norm = &norm, .normed = &out});
    residual = download(backend, stream);
    normed = download(backend, out);
    backend.layer_norm(stream, norm, out);
    EXPECT_EQ(download(backend, out).data, normed.data) << "fused and apart agree";
  };
  HostMatrix residual(0, 0), normed(0, 0), cpu_residual(0, 0), cpu_normed(0, 0);
  run(gpu_, residual, normed);
  run(*cpu_, cpu_residual, cpu_normed);
  EXPECT_EQ(residual.data, cpu_residual.data) << "the same additions in the same order";
  expect_close(normed, cpu_normed, 10 * (epsilon() + 0x1p-22), "normed");
}

TEST_P(Ops, Activations) {
  const HostMatrix x = random_matrix(5, 33, 1, GetParam());
  for (const Activation kind : {Activation::gelu_tanh, Activation::gelu_erf, Activation::gelu_quick,
                                Activation::relu, Activation::silu, Activation::tanh}) {
    const Tensor on_gpu = upload(gpu_, x, true), on_cpu = upload(*cpu_, x);
    gpu_.activate(kind, on_gpu);
    cpu_->activate(kind, on_cpu);
    expect_close(download(gpu_, on_gpu), download(*cpu_, on_cpu), 5 * epsilon() + 1e-6, "act");
  }
}

// Two sequences in pieces: a prompt each, then a token each, with blocks out of order.
TEST_P(Ops, AttentionOverTheCache) {
  constexpr std::int64_t kHeads = 3, kDim = 16, kWidth = kHeads * kDim, kBlock = 16;
  const std::vector<std::int32_t> blocks_a = {5, 0, 3}, blocks_b = {2, 4};
  const auto kv_gpu = gpu_.make_kv_storage(kHeads, kDim, 6, kBlock);
  const auto kv_cpu = cpu_->make_kv_storage(kHeads, kDim, 6, kBlock);
  const auto step = [&](std::int64_t start_a, std::int64_t n_a, std::int64_t start_b,
                        std::int64_t n_b, unsigned seed) {
    const HostMatrix qkv = random_matrix(n_a + n_b, 3 * kWidth, seed, GetParam());
    const std::vector<SequenceRows> rows = {
        {.first_row = 0, .n_rows = n_a, .start = start_a, .blocks = blocks_a},
        {.first_row = n_a, .n_rows = n_b, .start = start_b, .blocks = blocks_b}};
    const auto run = [&](Backend& backend, KvStorage& cache) {
      const Tensor t = upload(backend, qkv, true),
                   out = backend.allocate_activation(n_a + n_b, kWidth);
      backend.attention(t.columns(0, kWidth), t.columns(kWidth, 2 * kWidth),
                        t.columns(2 * kWidth, 3 * kWidth), cache, rows, 0.25F, out);
      return download(backend, out);
    };
    // Scores reach about 10, and an error e of a score is a relative error e of its weight.
    expect_close(run(gpu_, *kv_gpu), run(*cpu_, *kv_cpu), 8 * epsilon() + 2e-5, "attention");
  };
  step(0, 37, 0, 15, 1);
  step(37, 1, 15, 1, 2);
  step(38, 1, 16, 1, 3);
  step(39, 5, 17, 1, 4);
}

TEST_P(Ops, ARankWithoutHeadsHasNothingToAttendTo) {
  const auto cache = gpu_.make_kv_storage(0, 16, 4, 16);
  const Tensor none = gpu_.allocate_activation(2, 0);
  const std::vector<std::int32_t> blocks = {0};
  const std::vector<SequenceRows> rows = {
      {.first_row = 0, .n_rows = 2, .start = 0, .blocks = blocks}};
  EXPECT_NO_THROW(gpu_.attention(none, none, none, *cache, rows, 1, none));
  EXPECT_EQ(cache->bytes(), 0U);
}

TEST_P(Ops, QuestionsAboutLogits) {
  const HostMatrix logits = random_matrix(2, 300, 1);
  const std::vector<std::uint8_t> allowed(300, 1);
  const std::vector<LogitQuery> queries = {
      {.n_candidates = 3, .n_top = 2, .target = 1017},
      {.temperature = 0.7, .n_candidates = 1, .noise = true, .seed = 5, .position = 9}};
  std::vector<LogitReply> found(2), truth(2);
  gpu_.query_logits(upload(gpu_, logits), {1000, allowed}, queries, found);
  cpu_->query_logits(upload(*cpu_, logits), {1000, allowed}, queries, truth);
  for (int i = 0; i < 2; ++i) {
    ASSERT_EQ(found[i].candidates.size(), truth[i].candidates.size());
    for (std::size_t c = 0; c < truth[i].candidates.size(); ++c) {
      EXPECT_EQ(found[i].candidates[c].id, truth[i].candidates[c].id);
      EXPECT_EQ(found[i].candidates[c].raw, truth[i].candidates[c].raw);
    }
    EXPECT_EQ(found[i].target, truth[i].target);
    EXPECT_EQ(found[i].first_bad_id, -1);
    EXPECT_NEAR(found[i].raw.max + std::log(found[i].raw.sum),
                truth[i].raw.max + std::log(truth[i].raw.sum), 1e-6);
  }
  EXPECT_EQ(found[0].top.size(), 2U);
}

TEST_P(Ops, TheMassBeforeALogit) {
  const HostMatrix logits = random_matrix(1, 300, 1);
  const std::vector<std::uint8_t> allowed(300, 1);
  LogitQuery query{.temperature = 0.7, .n_candidates = 1};
  query.n_bounds = 1;
  query.bounds[0] = {.penalised = 0.25F, .id = 1100};
  LogitReply found;
  gpu_.query_logits(upload(gpu_, logits), {1000, allowed}, {&query, 1}, {&found, 1});
  double best = -1e30, before = 0;
  for (const float x : logits.data) best = std::max(best, static_cast<double>(x));
  for (const float x : logits.data) before += x > 0.25F ? std::exp((x - best) / 0.7) : 0;
  EXPECT_NEAR(found.before[0], before, 1e-9 * before);
}

INSTANTIATE_TEST_SUITE_P(All, Ops, testing::Values(DType::f32, DType::f16, DType::bf16),
                         [](const auto& instance) { return std::string(name(instance.param)); });

TEST(Ops, ForeignObjectsAreABug) {
  CudaBackend gpu({});
  const auto cpu = make_cpu_backend(1);
  const auto matrix = make_matrix(*cpu, HostMatrix(4, 4), false);
  const auto cache = cpu->make_kv_storage(1, 4, 1, 16);
  const Tensor x = gpu.allocate(1, 4);
  EXPECT_THROW(gpu.matmul(x, *matrix, nullptr, x), Error);
  EXPECT_THROW(gpu.attention(x, x, x, *cache, {}, 1, x), Error);
}

TEST(Ops, ShapesThatDisagreeAreABug) {
  CudaBackend gpu({});
  Tensor x = gpu.allocate(2, 4), y = gpu.allocate(2, 5);
  const LayerNormParams norm{gpu.allocate(1, 5), gpu.allocate(1, 5), 1e-5F};
  EXPECT_THROW(gpu.layer_norm(x, norm, x), Error);
  EXPECT_THROW(gpu.layer_norm(y, norm, x), Error);
  EXPECT_THROW(gpu.update_residual({}, {.residual = &x}), Error);
  EXPECT_THROW(gpu.update_residual(std::vector{y}, {.residual = &x}), Error);
  EXPECT_THROW(gpu.update_residual(std::vector{y}, {.residual = &y, .norm = &norm}), Error);
  EXPECT_THROW(gpu.gather_rows(x, std::vector<std::int32_t>{0}, y), Error);
}

TEST(Ops, DescribesItself) {
  CudaBackend gpu({.device = 2, .precision = all_of(DType::bf16)});
  EXPECT_NE(gpu.describe().find("cuda device 2"), std::string::npos) << gpu.describe();
  EXPECT_NE(gpu.describe().find("BF16"), std::string::npos) << gpu.describe();
  const auto memory = gpu.memory();
  ASSERT_TRUE(memory);
  EXPECT_GT(memory->free_bytes, 0U);
  EXPECT_LT(memory->free_bytes, memory->total_bytes);  // the workspace has been taken
}

}  // namespace
}  // namespace shardlm::cuda
