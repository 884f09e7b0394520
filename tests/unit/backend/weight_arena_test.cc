// Memory of packed weights: spans, huge pages or none, and what the source of a matrix is told.
#include "backend/cpu/weight_arena.h"

#include <gtest/gtest.h>
#include <sys/prctl.h>

#include <algorithm>
#include <atomic>
#include <vector>

#include "backend/cpu/cpu_backend.h"

namespace shardlm {
namespace {

constexpr std::size_t kMegabyte = std::size_t{1} << 20;

TEST(WeightArena, GivesAlignedSpansOfZerosThatDoNotTouch) {
  WeightArena arena;
  std::vector<ArenaSpan> spans;
  std::size_t total = 0;
  for (const std::size_t bytes : {std::size_t{1}, std::size_t{63}, std::size_t{64}, std::size_t{65},
                                  3 * kMegabyte, 300 * kMegabyte, std::size_t{100}}) {
    spans.push_back(arena.take(bytes));
    total += bytes;
    const ArenaSpan& span = spans.back();
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(span.data) % 64, 0U) << bytes;
    EXPECT_EQ(span.bytes, bytes);
    EXPECT_EQ(span.data[0], std::byte{0}) << bytes;
    EXPECT_EQ(span.data[bytes - 1], std::byte{0}) << bytes;
    span.data[0] = span.data[bytes - 1] = std::byte{7};
  }
  EXPECT_EQ(arena.bytes(), total);
  EXPECT_EQ(arena.take(0).data, nullptr);
}

TEST(WeightArena, ASpanOutlivesItsArena) {
  ArenaSpan span;
  {
    WeightArena arena;
    span = arena.take(5 * kMegabyte);
  }
  std::fill_n(span.data, span.bytes, std::byte{3});
  EXPECT_EQ(span.data[span.bytes - 1], std::byte{3});
}

/// While it lives, the system gives this process no huge pages.
class NoHugePages {
 public:
  NoHugePages() : refused_(prctl(PR_SET_THP_DISABLE, 1, 0, 0, 0) == 0) {}
  ~NoHugePages() { prctl(PR_SET_THP_DISABLE, 0, 0, 0, 0); }
  bool refused() const { return refused_; }

 private:
  bool refused_;
};

TEST(WeightArena, WithoutHugePagesOnlyTheReportDiffers) {
  const NoHugePages none;
  if (!none.refused()) GTEST_SKIP() << "this system cannot refuse huge pages";
  const auto backend = make_cpu_backend(2);
  const auto matrix = backend->make_matrix(
      {.in = 1024, .out = 1024, .rows_are_outputs = false, .read_row = [](auto row, auto to) {
         std::ranges::fill(to, static_cast<float>(row));
       }});
  EXPECT_EQ(backend->describe_weights(), "4194304 bytes of packed weights, 0 % in huge pages");
  const Tensor x = backend->allocate(1, 1024), y = backend->allocate(1, 1024);
  backend->upload(std::vector<float>(1024, 1.0F), x);
  backend->matmul(x, *matrix, nullptr, y);
  EXPECT_EQ(y.row(0)[1023], 1023.0F * 1024 / 2);
}

TEST(WeightArena, AReportOfMemoryThatIsNotOursIsZero) {
  const std::vector<std::byte> small(100);
  EXPECT_EQ(huge_page_bytes(small.data(), 0), 0U);
}

// Rows that are done are told once each, also by several threads.
TEST(PackedMatrix, TellsWhichRowsAreDone) {
  for (const bool rows_are_outputs : {false, true}) {
    const auto backend = make_cpu_backend(3);
    constexpr std::int64_t kIn = 1500, kOut = 3000;
    std::vector<std::atomic<int>> read(3000), done(3000);
    backend->make_matrix({.in = kIn,
                          .out = kOut,
                          .rows_are_outputs = rows_are_outputs,
                          .read_row =
                              [&](std::int64_t row, std::span<float> to) {
                                EXPECT_EQ(done[static_cast<std::size_t>(row)], 0) << "read after";
                                ++read[static_cast<std::size_t>(row)];
                                std::ranges::fill(to, 1.0F);
                              },
                          .done_with_rows =
                              [&](std::int64_t first, std::int64_t end) {
                                for (std::int64_t r = first; r < end; ++r) {
                                  ++done[static_cast<std::size_t>(r)];
                                }
                              }});
    for (std::int64_t r = 0; r < (rows_are_outputs ? kOut : kIn); ++r) {
      EXPECT_EQ(read[static_cast<std::size_t>(r)], 1) << r;
      EXPECT_EQ(done[static_cast<std::size_t>(r)], 1) << r;
    }
  }
}

}  // namespace
}  // namespace shardlm
