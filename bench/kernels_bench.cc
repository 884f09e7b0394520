// The kernels of the CPU back end beside what the machine can do. Bandwidths in GB/s (10^9 bytes
// of weights), rates in GFLOP/s (a multiply-add is two operations). `--simd=AVX2` measures another
// instruction set than the best one; other flags are Google Benchmark's.
#include <benchmark/benchmark.h>

#include <cstdint>
#include <memory>
#include <optional>
#include <random>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "backend/cpu/cpu_backend.h"
#include "backend/cpu/mapped_memory.h"
#include "backend/cpu/thread_pool.h"
#include "bench/machine_peak.h"

namespace shardlm {
namespace {

// More than any cache that one core's share of a machine has: 64 matrices of 9.4 MB.
constexpr std::int64_t kIn = 768, kOut = 3072, kMatrices = 64;

std::unique_ptr<WeightMatrix> random_matrix(Backend& backend, std::int64_t in, std::int64_t out) {
  const auto read_row = [](std::int64_t row, std::span<float> to) {
    std::minstd_rand random(static_cast<unsigned>(row + 1));
    for (float& w : to) w = static_cast<float>(random() % 2001) * 1e-3F - 1.0F;
  };
  return backend.make_matrix(
      {.in = in, .out = out, .rows_are_outputs = false, .read_row = read_row});
}

Tensor filled(Backend& backend, std::int64_t rows, std::int64_t cols) {
  const Tensor t = backend.allocate(rows, cols);
  std::vector<float> values(static_cast<std::size_t>(rows * cols));
  for (std::size_t i = 0; i < values.size(); ++i) values[i] = static_cast<float>(i % 17) * 0.01F;
  backend.upload(values, t);
  return t;
}

void set_rate(benchmark::State& state, const char* name, double per_iteration) {
  state.counters[name] =
      benchmark::Counter(per_iteration * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void machine_read(benchmark::State& state) {
  ThreadPool threads(static_cast<int>(state.range(0)));
  const std::int64_t n = kMatrices * kIn * kOut;
  const MappedMemory memory(static_cast<std::size_t>(n) * sizeof(float), "the read benchmark");
  std::fill_n(memory.floats(), n, 1.0F);
  for (auto _ : state) {
    threads.parallel_for(n / 1024, 1, [&](std::int64_t begin, std::int64_t end, int) {
      benchmark::DoNotOptimize(read_all(memory.floats() + begin * 1024, (end - begin) * 1024));
    });
  }
  set_rate(state, "GB/s", static_cast<double>(n) * sizeof(float));
}
BENCHMARK(machine_read)->Arg(1)->Arg(2)->ArgName("threads")->UseRealTime();

void machine_multiply_add(benchmark::State& state) {
  ThreadPool threads(static_cast<int>(state.range(0)));
  std::vector<std::int64_t> operations(static_cast<std::size_t>(threads.size()));
  for (auto _ : state) {
    threads.parallel_for(threads.size(), 1, [&](std::int64_t begin, std::int64_t, int) {
      float sink = 0;
      operations[static_cast<std::size_t>(begin)] = multiply_add_loop(1'000'000, &sink);
      benchmark::DoNotOptimize(sink);
    });
  }
  set_rate(state, "GFLOP/s", static_cast<double>(operations[0]) * threads.size());
}
BENCHMARK(machine_multiply_add)->Arg(1)->Arg(2)->ArgName("threads")->UseRealTime();

/// What a parallel region costs while the workers are awake.
void parallel_region(benchmark::State& state) {
  ThreadPool threads(static_cast<int>(state.range(0)));
  for (auto _ : state) {
    threads.parallel_for(threads.size(), 1, [](std::int64_t begin, std::int64_t, int) {
      benchmark::DoNotOptimize(begin);
    });
  }
}
BENCHMARK(parallel_region)->Arg(2)->ArgName("threads")->UseRealTime();

const std::vector<std::int64_t> kFloatTypes = {
    static_cast<int>(DType::f32), static_cast<int>(DType::bf16), static_cast<int>(DType::f16)};

std::unique_ptr<Backend> backend_of(benchmark::State& state) {
  const auto dtype = static_cast<DType>(state.range(0));
  state.SetLabel(std::string(name(dtype)));
  return make_cpu_backend(static_cast<int>(state.range(1)), {.weights = dtype});
}

/// Some rows through all matrices in turn: every weight comes from memory.
void matmul_decode(benchmark::State& state) {
  const auto backend = backend_of(state);
  std::vector<std::unique_ptr<WeightMatrix>> matrices;
  for (int i = 0; i < kMatrices; ++i) matrices.push_back(random_matrix(*backend, kIn, kOut));
  const std::int64_t rows = state.range(2);
  const Tensor x = filled(*backend, rows, kIn);
  const Tensor bias = filled(*backend, 1, kOut);
  const Tensor out = backend->allocate(rows, kOut);
  for (auto _ : state) {
    for (const auto& w : matrices) backend->matmul(x, *w, &bias, out);
  }
  set_rate(state, "GB/s", static_cast<double>(matrices.size() * matrices[0]->bytes()));
  set_rate(state, "GFLOP/s", 2.0 * static_cast<double>(rows * kIn * kOut * kMatrices));
}
BENCHMARK(matmul_decode)
    ->ArgsProduct({kFloatTypes, {1, 2}, {1, 4, 16}})
    ->ArgNames({"dtype", "threads", "rows"})
    ->UseRealTime();

void matmul_prefill(benchmark::State& state) {
  const auto backend = backend_of(state);
  const std::int64_t rows = state.range(2), in = state.range(3), out_columns = state.range(4);
  const auto w = random_matrix(*backend, in, out_columns);
  const Tensor x = filled(*backend, rows, in);
  const Tensor out = backend->allocate(rows, out_columns);
  for (auto _ : state) backend->matmul(x, *w, nullptr, out);
  set_rate(state, "GFLOP/s", 2.0 * static_cast<double>(rows * in * out_columns));
}
BENCHMARK(matmul_prefill)
    ->ArgsProduct({kFloatTypes, {1, 2}, {128, 512}, {768}, {768, 2304, 3072}})
    ->ArgsProduct({kFloatTypes, {1, 2}, {128, 512}, {3072}, {768}})
    ->ArgsProduct({{static_cast<int>(DType::f32)}, {1, 2}, {128, 512}, {1600}, {1600, 4800}})
    ->ArgNames({"dtype", "threads", "rows", "in", "out"})
    ->UseRealTime();

/// Attention of `rows` new tokens after `start` others, in 12 heads of 64.
void attention(benchmark::State& state) {
  const auto backend = make_cpu_backend(static_cast<int>(state.range(0)));
  const std::int64_t rows = state.range(1), start = state.range(2), heads = 12, dim = 64;
  const auto cache = backend->make_kv_storage(heads, dim, 64, 16);
  std::vector<std::int32_t> blocks(64);
  for (std::size_t i = 0; i < blocks.size(); ++i) blocks[i] = static_cast<std::int32_t>(i);
  const Tensor q = filled(*backend, rows, heads * dim);
  const Tensor out = backend->allocate(rows, heads * dim);
  const SequenceRows sequence{.first_row = 0, .n_rows = rows, .start = start, .blocks = blocks};
  for (auto _ : state) backend->attention(q, q, q, *cache, std::span(&sequence, 1), 0.125F, out);
  const std::int64_t pairs = rows * start + rows * (rows + 1) / 2;
  set_rate(state, "GFLOP/s", 4.0 * static_cast<double>(pairs * heads * dim));
}
BENCHMARK(attention)
    ->ArgsProduct({{1, 2}, {1}, {1000}})
    ->ArgsProduct({{1, 2}, {128, 1024}, {0}})
    ->ArgNames({"threads", "rows", "start"})
    ->UseRealTime();

void activation(benchmark::State& state) {
  const auto backend = make_cpu_backend(1);
  const Tensor x = filled(*backend, 1, 3072);
  for (auto _ : state) backend->activate(static_cast<Activation>(state.range(0)), x);
  set_rate(state, "Gelements/s", 3072);
}
BENCHMARK(activation)->DenseRange(0, 5)->ArgName("kind");

}  // namespace
}  // namespace shardlm

int main(int argc, char** argv) {
  std::optional<shardlm::ForcedSimdTarget> forced;
  std::vector<char*> rest;
  for (int i = 0; i < argc; ++i) {
    const std::string_view argument = argv[i];
    if (argument.starts_with("--simd=")) {
      forced.emplace(argument.substr(7));
    } else {
      rest.push_back(argv[i]);
    }
  }
  int count = static_cast<int>(rest.size());
  benchmark::Initialize(&count, rest.data());
  if (benchmark::ReportUnrecognizedArguments(count, rest.data())) return 2;
  benchmark::AddCustomContext("simd", shardlm::cpu_simd_target());
  benchmark::RunSpecifiedBenchmarks();
  benchmark::Shutdown();
  return 0;
}
