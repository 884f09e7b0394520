// Products with int8 and int4 weights beside what the machine can do (machine_read and
// machine_multiply_add of kernels_bench.cc), and the packing of weights. Decode reads every weight
// from memory: bandwidths in GB/s (10^9 bytes of panels, scales included). Prefill in effective
// GFLOP/s (two operations a multiply-add of the unquantised product). `set`: 3 the best
// instructions, 2 without AMX, 1 without VNNI either, 0 AVX2.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <random>
#include <vector>

#include "backend/cpu/cpu_features.h"
#include "backend/cpu/matmul.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/quantised_rows.h"
#include "backend/cpu/simd.h"
#include "backend/cpu/thread_pool.h"

namespace shardlm {
namespace {

constexpr std::int64_t kIn = 768, kOut = 3072;
constexpr std::int64_t kDecodeBytes = 400'000'000;  // more than one core's share of any cache

DType weight_type(std::int64_t bits) { return bits == 4 ? DType::q4 : DType::q8; }

std::vector<float> random_values(std::int64_t count) {
  std::vector<float> values(static_cast<std::size_t>(count));
  std::minstd_rand random(1);
  for (float& v : values) v = static_cast<float>(random() % 2001) * 1e-3F - 1.0F;
  return values;
}

PackedMatrix random_matrix(DType dtype, std::int64_t in, std::int64_t out, ThreadPool& threads) {
  const std::vector<float> values = random_values(in * out);
  const auto read_row = [&](std::int64_t row, std::span<float> to) {
    std::copy_n(values.begin() + row * out, out, to.begin());
  };
  WeightArena arena;
  return PackedMatrix({.in = in, .out = out, .rows_are_outputs = false, .read_row = read_row},
                      dtype, arena, threads);
}

void set_rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

/// The instruction set that a benchmark asks for.
struct ForcedSet {
  explicit ForcedSet(std::int64_t set)
      : target(set == 0 ? "AVX2" : cpu_simd_targets().front()), features(allowed(set)) {}
  static CpuFeatures allowed(std::int64_t set) {
    CpuFeatures all = detected_cpu_features();
    all.avx512_vnni = all.avx512_vnni && set >= 2;
    all.amx_int8 = all.amx_int8 && set == 3;
    return all;
  }
  ForcedSimdTarget target;
  ForcedCpuFeatures features;
};

/// A few rows through many matrices in turn.
void quantised_decode(benchmark::State& state) {
  const ForcedSet forced(state.range(3));
  ThreadPool threads(static_cast<int>(state.range(1)));
  Matmul matmul(threads);
  std::vector<PackedMatrix> matrices;
  std::int64_t bytes = 0;
  while (bytes < kDecodeBytes) {
    matrices.push_back(random_matrix(weight_type(state.range(0)), kIn, kOut, threads));
    bytes += static_cast<std::int64_t>(matrices.back().bytes());
  }
  const std::int64_t rows = state.range(2);
  std::vector<float> x = random_values(rows * kIn);
  std::vector<float> y(static_cast<std::size_t>(rows * kOut));
  const Tensor in = Tensor::borrow(x.data(), rows, kIn), out = Tensor::borrow(y.data(), rows, kOut);
  for (auto _ : state) {
    for (const PackedMatrix& w : matrices) matmul.run(in, w, nullptr, std::nullopt, out);
  }
  set_rate(state, "GB/s", static_cast<double>(bytes));
}
BENCHMARK(quantised_decode)
    ->ArgsProduct({{8, 4}, {1, 2}, {1, 2, 4, 8, 16}, {2}})
    ->ArgsProduct({{8, 4}, {1}, {1, 4}, {0, 1}})
    ->ArgNames({"bits", "threads", "rows", "set"})
    ->UseRealTime();

void quantised_prefill(benchmark::State& state) {
  const ForcedSet forced(state.range(3));
  ThreadPool threads(static_cast<int>(state.range(1)));
  Matmul matmul(threads);
  const PackedMatrix w = random_matrix(weight_type(state.range(0)), kIn, kOut, threads);
  const std::int64_t rows = state.range(2);
  std::vector<float> x = random_values(rows * kIn);
  std::vector<float> y(static_cast<std::size_t>(rows * kOut));
  const Tensor in = Tensor::borrow(x.data(), rows, kIn), out = Tensor::borrow(y.data(), rows, kOut);
  for (auto _ : state) matmul.run(in, w, nullptr, std::nullopt, out);
  set_rate(state, "GFLOP/s", 2.0 * static_cast<double>(rows * kIn * kOut));
}
BENCHMARK(quantised_prefill)
    ->ArgsProduct({{8, 4}, {1, 2}, {128, 512}, {2, 3}})
    ->ArgsProduct({{8, 4}, {1}, {128}, {0, 1}})
    ->ArgNames({"bits", "threads", "rows", "set"})
    ->UseRealTime();

void quantise_rows(benchmark::State& state) {
  const std::int64_t rows = state.range(0);
  const std::vector<float> x = random_values(rows * kIn);
  QuantisedRows quantised;
  quantised.resize(rows, kIn);
  for (auto _ : state) quantised.fill(x.data(), kIn, 0, rows);
  set_rate(state, "GB/s", static_cast<double>(rows * kIn) * sizeof(float));
}
BENCHMARK(quantise_rows)->Arg(1)->Arg(128)->ArgName("rows");

/// Bytes of float32 a second, both within the level-1 cache.
void pack(benchmark::State& state, DType dtype) {
  const std::vector<float> tile = random_values(PanelLayout::kInputs * PanelLayout::kOutputs);
  std::vector<std::byte> packed(PanelLayout{.dtype = dtype}.tile_bytes());
  for (auto _ : state) {
    pack_tile(dtype, tile.data(), PanelLayout::kInputs, packed.data());
    benchmark::ClobberMemory();
  }
  set_rate(state, "GB/s", static_cast<double>(tile.size() * sizeof(float)));
}
BENCHMARK_CAPTURE(pack, f32, DType::f32);
BENCHMARK_CAPTURE(pack, bf16, DType::bf16);
BENCHMARK_CAPTURE(pack, f16, DType::f16);
BENCHMARK_CAPTURE(pack, q8, DType::q8);
BENCHMARK_CAPTURE(pack, q4, DType::q4);

void look_up(benchmark::State& state, DType dtype) {
  ThreadPool threads(1);
  const PackedMatrix w = random_matrix(dtype, kIn, kOut, threads);
  std::vector<float> row(kIn);
  std::int64_t output = 0;
  for (auto _ : state) {
    w.read_output(output, row.data());
    output = (output + 997) % kOut;
    benchmark::ClobberMemory();
  }
}
BENCHMARK_CAPTURE(look_up, f32, DType::f32);
BENCHMARK_CAPTURE(look_up, bf16, DType::bf16);
BENCHMARK_CAPTURE(look_up, f16, DType::f16);
BENCHMARK_CAPTURE(look_up, q8, DType::q8);
BENCHMARK_CAPTURE(look_up, q4, DType::q4);

}  // namespace
}  // namespace shardlm
