// Attention on the CPU beside what the machine can do: prefill in GFLOP/s (a multiply-add is two
// operations, causal pairs alone count), decode in GB/s of keys and values read beside a plain read
// of the same bytes. Flags are Google Benchmark's.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <numeric>
#include <vector>

#include "backend/cpu/attention.h"
#include "backend/cpu/host_buffer.h"
#include "backend/cpu/simd.h"
#include "bench/machine_peak.h"

namespace shardlm {
namespace {

constexpr std::int64_t kHeads = 12, kDim = 64, kWidth = kHeads * kDim, kBlockTokens = 32;
constexpr int kLayers = 12;
constexpr DType kTypes[] = {DType::f32, DType::bf16, DType::f16, DType::i8};

Tensor filled(std::int64_t rows) {
  const Tensor t(make_host_buffer(static_cast<std::size_t>(rows * kWidth) * sizeof(float)), rows,
                 kWidth);
  for (std::int64_t i = 0; i < rows * kWidth; ++i) {
    t.row(0)[i] = static_cast<float>(i * 7919 % 2001) * 1e-3F - 1.0F;
  }
  return t;
}

/// Caches of all layers, more than the level-2 caches hold, with `tokens` tokens in them.
struct Layers {
  std::vector<std::unique_ptr<CpuKvStorage>> caches;
  std::vector<std::int32_t> blocks;

  Layers(Attention& attention, std::int64_t tokens, DType type)
      : blocks(static_cast<std::size_t>((tokens + kBlockTokens - 1) / kBlockTokens)) {
    std::iota(blocks.begin(), blocks.end(), 0);
    const Tensor rows = filled(tokens);
    const SequenceRows sequence{.first_row = 0, .n_rows = tokens, .start = 0, .blocks = blocks};
    for (int l = 0; l < kLayers; ++l) {
      caches.push_back(
          std::make_unique<CpuKvStorage>(kHeads, kDim, std::ssize(blocks), kBlockTokens, type));
      attention.run(rows, rows, rows, *caches.back(), {&sequence, 1}, 0.125F, rows);
    }
  }
};

void set_rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

/// A prompt of `rows` tokens from an empty cache, all layers.
void attention_prefill(benchmark::State& state) {
  const DType type = kTypes[state.range(0)];
  ThreadPool threads(static_cast<int>(state.range(1)));
  Attention attention(threads);
  const std::int64_t rows = state.range(2);
  const Layers layers(attention, rows, type);
  const Tensor q = filled(rows), out = filled(rows);
  const SequenceRows sequence{.first_row = 0, .n_rows = rows, .start = 0, .blocks = layers.blocks};
  for (auto _ : state) {
    for (const auto& cache : layers.caches) {
      attention.run(q, q, q, *cache, {&sequence, 1}, 0.125F, out);
    }
  }
  set_rate(state, "GFLOP/s", 4.0 * kLayers * kWidth * static_cast<double>(rows * (rows + 1) / 2));
  state.SetLabel(std::string(name(type)));
}
BENCHMARK(attention_prefill)
    ->ArgsProduct({{0, 1, 2, 3}, {1, 2}, {128, 512}})
    ->ArgNames({"type", "threads", "rows"})
    ->UseRealTime();

/// One row after `tokens` - 1 others, all layers.
void attention_decode(benchmark::State& state) {
  const DType type = kTypes[state.range(0)];
  ThreadPool threads(static_cast<int>(state.range(1)));
  Attention attention(threads);
  const std::int64_t tokens = state.range(2);
  const Layers layers(attention, tokens, type);
  const Tensor q = filled(1), out = filled(1);
  const SequenceRows sequence{
      .first_row = 0, .n_rows = 1, .start = tokens - 1, .blocks = layers.blocks};
  for (auto _ : state) {
    for (const auto& cache : layers.caches) {
      attention.run(q, q, q, *cache, {&sequence, 1}, 0.125F, out);
    }
  }
  double bytes = 0;
  for (const auto& cache : layers.caches) bytes += static_cast<double>(cache->bytes());
  set_rate(state, "GB/s", bytes);
  state.SetLabel(std::string(name(type)));
}
BENCHMARK(attention_decode)
    ->ArgsProduct({{0, 1, 2, 3}, {1, 2}, {512, 1024}})
    ->ArgNames({"type", "threads", "tokens"})
    ->UseRealTime();

/// The same bytes, read and added up.
void plain_read(benchmark::State& state) {
  ThreadPool threads(static_cast<int>(state.range(1)));
  Attention attention(threads);
  const Layers layers(attention, state.range(2), kTypes[state.range(0)]);
  for (auto _ : state) {
    for (const auto& cache : layers.caches) {
      const auto* floats = reinterpret_cast<const float*>(cache->head(0, {}).part);
      const auto pieces = static_cast<std::int64_t>(cache->bytes() / sizeof(float)) / 1024;
      threads.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end, int) {
        benchmark::DoNotOptimize(read_all(floats + begin * 1024, (end - begin) * 1024));
      });
    }
  }
  double bytes = 0;
  for (const auto& cache : layers.caches) bytes += static_cast<double>(cache->bytes());
  set_rate(state, "GB/s", bytes);
}
BENCHMARK(plain_read)
    ->ArgsProduct({{0, 1, 3}, {1, 2}, {512, 1024}})
    ->ArgNames({"type", "threads", "tokens"})
    ->UseRealTime();

}  // namespace
}  // namespace shardlm

BENCHMARK_MAIN();
