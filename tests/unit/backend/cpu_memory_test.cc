#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstdint>

#include "backend/cpu/cpu_features.h"
#include "backend/cpu/mapped_memory.h"
#include "base/error.h"
#include "tests/unit/backend/cpu_testing.h"

namespace shardlm {
namespace {

ExitCode code_of(const std::function<void()>& action) {
  try {
    action();
  } catch (const Error& error) {
    return error.code();
  }
  return ExitCode::ok;
}

TEST(BufferPool, EqualStepsSettleToNoAllocation) {
  const auto backend = make_cpu_backend(1);
  const auto step = [&](std::int64_t rows) {
    const Tensor a = backend->allocate(rows, 768), b = backend->allocate(rows, 3072);
    const Tensor c = backend->allocate(rows, 768);
    EXPECT_NE(a.row(0), c.row(0));
  };
  step(1);
  const std::size_t first = backend->allocations();
  EXPECT_EQ(first, 3U);
  step(1);
  step(1);
  EXPECT_EQ(backend->allocations(), first);
  step(64);
  step(1);
  const std::size_t both = backend->allocations();
  for (int i = 0; i < 5; ++i) {
    step(64);
    step(1);
    step(63);  // nearly equal: shares their buffers
  }
  EXPECT_EQ(backend->allocations(), both);
}

TEST(BufferPool, AViewKeepsItsBuffer) {
  const auto backend = make_cpu_backend(1);
  Tensor view;
  {
    const Tensor whole = backend->allocate(4, 100);
    view = whole.row_range(2, 3).columns(10, 20);
    std::fill_n(view.row(0), 10, 5.0F);
  }
  const Tensor other = backend->allocate(4, 100);
  std::fill_n(other.row(0), 400, 6.0F);
  EXPECT_EQ(download(*backend, view).data, std::vector<float>(10, 5.0F));
  EXPECT_EQ(backend->allocations(), 2U);
}

TEST(BufferPool, SmallTensorsDoNotTakeLargeBuffers) {
  const auto backend = make_cpu_backend(1);
  { const Tensor logits = backend->allocate(64, 50257); }
  const Tensor row = backend->allocate(1, 768);
  const Tensor again = backend->allocate(64, 50257);
  EXPECT_EQ(backend->allocations(), 2U);
}

TEST(BufferPool, AlignedAtEverySize) {
  const auto backend = make_cpu_backend(1);
  std::vector<Tensor> kept;
  for (const std::int64_t cols : {0, 1, 63, 64, 65, 1000, 524'288, 3'000'000}) {
    kept.push_back(backend->allocate(1, cols));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(kept.back().row(0)) % 64, 0U) << cols;
    std::fill_n(kept.back().row(0), cols, static_cast<float>(cols));
  }
  for (const Tensor& t : kept) {
    if (t.cols() > 0) {
      EXPECT_EQ(t.row(0)[t.cols() - 1], static_cast<float>(t.cols()));
    }
  }
}

TEST(Transfer, RowByRowThroughViews) {
  const auto backend = make_cpu_backend(1);
  const Tensor whole = upload(*backend, HostMatrix(3, 5));
  const std::vector<float> values = {1, 2, 3, 4};
  backend->upload(values, whole.row_range(1, 3).columns(2, 4));
  EXPECT_EQ(download(*backend, whole).data,
            (std::vector<float>{0, 0, 0, 0, 0, 0, 0, 1, 2, 0, 0, 0, 3, 4, 0}));
  std::vector<float> back(4);
  backend->download(whole.row_range(1, 3).columns(2, 4), back);
  EXPECT_EQ(back, values);
  EXPECT_THROW(backend->upload(values, whole), Error);
  EXPECT_THROW(backend->download(whole, back), Error);
}

TEST(PackedMatrix, ReadsEachRowOnceInBothOrientations) {
  for (const bool rows_are_outputs : {false, true}) {
    const auto backend = make_cpu_backend(3);
    const std::int64_t in = 37, out = 101, rows = rows_are_outputs ? out : in;
    std::vector<std::atomic<int>> reads(static_cast<std::size_t>(rows));
    const auto read_row = [&](std::int64_t row, std::span<float> to) {
      EXPECT_EQ(std::ssize(to), rows_are_outputs ? in : out);
      ++reads[static_cast<std::size_t>(row)];
      std::ranges::fill(to, 1.0F);
    };
    const auto w = backend->make_matrix({in, out, rows_are_outputs, read_row});
    for (const auto& count : reads) EXPECT_EQ(count, 1);
    EXPECT_EQ(w->in(), in);
    EXPECT_EQ(w->out(), out);
    EXPECT_EQ(w->bytes(), 37U * 128 * sizeof(float));
  }
}

TEST(PackedMatrix, AFailingReadReachesTheCaller) {
  const auto backend = make_cpu_backend(2);
  const auto read_row = [](std::int64_t row, std::span<float>) {
    if (row == 9) fail(ExitCode::model_files, {.what = "row 9"});
  };
  EXPECT_EQ(code_of([&] {
              backend->make_matrix({10, 10, false, read_row});
            }),
            ExitCode::model_files);
  EXPECT_EQ(code_of([&] {
              backend->make_matrix({10, 10, true, read_row});
            }),
            ExitCode::model_files);
}

TEST(CpuMemory, MoreThanTheMachineHasIsAResourceError) {
  const auto backend = make_cpu_backend(1);
  const std::int64_t huge = std::int64_t{1} << 40;
  const auto never = [](std::int64_t, std::span<float>) { FAIL(); };
  EXPECT_EQ(code_of([&] {
              backend->make_matrix({huge, huge, false, never});
            }),
            ExitCode::resources);
  EXPECT_EQ(code_of([&] { backend->make_kv_storage(16, 64, huge, 16); }), ExitCode::resources);
  EXPECT_EQ(code_of([&] { backend->make_kv_storage(huge, huge, huge, 16); }), ExitCode::resources);
}

TEST(CpuMemory, MappedMemoryIsZeroAndMoves) {
  MappedMemory first(3 << 20, "a test");
  EXPECT_EQ(reinterpret_cast<std::uintptr_t>(first.floats()) % (2 << 20), 0U);
  EXPECT_EQ(first.floats()[(3 << 18) - 1], 0.0F);
  first.floats()[5] = 7;
  MappedMemory second = std::move(first);
  EXPECT_EQ(second.floats()[5], 7.0F);
  EXPECT_EQ(second.bytes(), 3U << 20);
  EXPECT_EQ(MappedMemory(0, "nothing").floats(), nullptr);
}

TEST(CpuBackend, DescribesItself) {
  EXPECT_EQ(make_cpu_backend(1)->describe(), "cpu " + describe_cpu_instructions() + " 1 thread");
  EXPECT_EQ(make_cpu_backend(2)->describe(), "cpu " + describe_cpu_instructions() + " 2 threads");
  EXPECT_THROW(make_cpu_backend(0), Error);
  EXPECT_THROW(ForcedSimdTarget("MMX"), Error);
  ASSERT_FALSE(cpu_simd_targets().empty());
  EXPECT_EQ(cpu_simd_target(), cpu_simd_targets().front());
  const std::string last = cpu_simd_targets().back();
  const ForcedSimdTarget forced(last);
  EXPECT_EQ(cpu_simd_target(), last);
}

}  // namespace
}  // namespace shardlm
