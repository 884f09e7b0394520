// Prefill's matmuls beside a BLAS library's sgemm on the same shapes, one after the other in one
// program, so that a drift of the machine strikes both. Built where a cblas is found.
#include <benchmark/benchmark.h>
#include <cblas.h>

#include <algorithm>
#include <cstdint>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace shardlm {
namespace {

struct Shape {
  std::int64_t rows, in, out;
  double flops() const { return 2.0 * static_cast<double>(rows * in * out); }
};

Shape shape_of(const benchmark::State& state) {
  return {state.range(0), state.range(1), state.range(2)};
}

std::vector<float> values(std::int64_t n) {
  std::vector<float> all(static_cast<std::size_t>(n));
  for (std::size_t i = 0; i < all.size(); ++i) all[i] = static_cast<float>(i % 17) * 0.01F;
  return all;
}

void set_rate(benchmark::State& state, const Shape& shape) {
  state.counters["GFLOP/s"] =
      benchmark::Counter(shape.flops() * 1e-9, benchmark::Counter::kIsIterationInvariantRate);
}

void ours(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const auto backend = make_cpu_backend(static_cast<int>(state.range(3)));
  const std::vector<float> row = values(shape.out), input = values(shape.rows * shape.in);
  const auto w = backend->make_matrix(
      {.in = shape.in,
       .out = shape.out,
       .rows_are_outputs = false,
       .read_row = [&](std::int64_t, std::span<float> to) { std::ranges::copy(row, to.begin()); }});
  const Tensor x = backend->allocate(shape.rows, shape.in);
  const Tensor out = backend->allocate(shape.rows, shape.out);
  backend->upload(input, x);
  for (auto _ : state) backend->matmul(x, *w, nullptr, out);
  set_rate(state, shape);
}

/// Threads are the library's to choose: set OPENBLAS_NUM_THREADS (or OMP_NUM_THREADS).
void cblas(benchmark::State& state) {
  const Shape shape = shape_of(state);
  const std::vector<float> x = values(shape.rows * shape.in), w = values(shape.in * shape.out);
  std::vector<float> out(static_cast<std::size_t>(shape.rows * shape.out));
  const auto m = static_cast<int>(shape.rows), n = static_cast<int>(shape.out),
             k = static_cast<int>(shape.in);
  for (auto _ : state) {
    cblas_sgemm(CblasRowMajor, CblasNoTrans, CblasNoTrans, m, n, k, 1.0F, x.data(), k, w.data(), n,
                0.0F, out.data(), n);
    benchmark::DoNotOptimize(out.data());
  }
  set_rate(state, shape);
}

void shapes(benchmark::internal::Benchmark* b) {
  b->ArgNames({"rows", "in", "out", "threads"})->UseRealTime();
  for (const std::int64_t threads : {1, 2}) {
    for (const std::int64_t rows : {128, 512}) {
      for (const auto& [in, out] : {std::pair(768, 2304), std::pair(768, 768), std::pair(768, 3072),
                                    std::pair(3072, 768)}) {
        b->Args({rows, in, out, threads});
      }
    }
  }
}
BENCHMARK(ours)->Apply(shapes);
BENCHMARK(cblas)->Apply(shapes);

}  // namespace
}  // namespace shardlm

BENCHMARK_MAIN();
