// A decode step repeated takes nothing from the heap: this program's operator new counts.
#include <gtest/gtest.h>

#include <array>

#include "tests/support/counted_news.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

struct Layer {
  std::unique_ptr<WeightMatrix> qkv, projection;
  LayerNormParams norm;
  Tensor bias;
  std::unique_ptr<KvStorage> cache;
};

constexpr std::int64_t kHeads = 4, kDim = 64, kWidth = kHeads * kDim;

void decode_step(Backend& backend, Layer& layer, Tensor& residual,
                 std::span<const std::int32_t> blocks, std::int64_t position) {
  const std::int64_t rows = residual.rows();
  const Tensor normed = backend.allocate(rows, kWidth), qkv = backend.allocate(rows, 3 * kWidth);
  backend.layer_norm(residual, layer.norm, normed);
  backend.matmul(normed, *layer.qkv, nullptr, qkv);
  const Tensor heads = backend.allocate(rows, kWidth), addend = backend.allocate(rows, kWidth);
  const std::array<SequenceRows, 2> sequences = {
      {{0, 1, position, blocks.first(2)}, {1, rows - 1, position, blocks.subspan(2)}}};
  backend.attention(qkv.columns(0, kWidth), qkv.columns(kWidth, 2 * kWidth),
                    qkv.columns(2 * kWidth, 3 * kWidth), *layer.cache, sequences, 0.125F, heads);
  backend.activate(Activation::gelu_tanh, heads);
  backend.matmul(heads, *layer.projection, nullptr, addend);
  Tensor out = backend.allocate(rows, kWidth);
  backend.update_residual(
      {&addend, 1},
      {.bias = &layer.bias, .residual = &residual, .norm = &layer.norm, .normed = &out});
}

TEST(SteadyState, ARepeatedStepTakesNothingFromTheHeap) {
  for (const int threads : {1, 2}) {
    const auto backend = make_cpu_backend(threads);
    const HostMatrix vector = random_floats(1, kWidth, 1);
    Layer layer;
    layer.qkv = make_matrix(*backend, random_floats(kWidth, 3 * kWidth, 2));
    layer.projection = make_matrix(*backend, random_floats(kWidth, kWidth, 3));
    layer.norm = {upload(*backend, vector), upload(*backend, vector), 1e-5F};
    layer.bias = upload(*backend, vector);
    layer.cache = backend->make_kv_storage(kHeads, kDim, 4, 16);
    Tensor residual = upload(*backend, random_floats(9, kWidth, 4));
    const std::vector<std::int32_t> blocks = {3, 0, 1, 2};

    decode_step(*backend, layer, residual, blocks, 0);  // warms the pool and the scratch up
    const std::size_t allocations = backend->allocations();
    const std::int64_t before = news();
    for (std::int64_t position = 1; position < 20; ++position) {
      decode_step(*backend, layer, residual, blocks, position);
    }
    EXPECT_EQ(news() - before, 0) << threads << " threads";
    EXPECT_EQ(backend->allocations(), allocations);
    const std::unique_ptr<int> one = std::make_unique<int>(1);
    EXPECT_EQ(news() - before, 1) << "the counter counts";
  }
}

}  // namespace
}  // namespace shardlm
