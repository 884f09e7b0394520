#include "backend/cpu/read_bandwidth.h"

#include <algorithm>
#include <chrono>

#include "backend/cpu/simd_targets.h"

#undef HWY_TARGET_INCLUDE
#define HWY_TARGET_INCLUDE "backend/cpu/read_bandwidth.cc"
#include <hwy/foreach_target.h>
// After foreach_target.h, which includes this file again:
#include <hwy/highway.h>

HWY_BEFORE_NAMESPACE();
namespace shardlm::HWY_NAMESPACE {

namespace hn = hwy::HWY_NAMESPACE;

float ReadAll(const float* data, std::int64_t n) {
  const hn::ScalableTag<float> d;
  const auto lanes = static_cast<std::int64_t>(hn::Lanes(d));
  hn::Vec<decltype(d)> sum[8];
  for (auto& s : sum) s = hn::Zero(d);
  for (std::int64_t i = 0; i < n; i += 8 * lanes) {
    for (int c = 0; c < 8; ++c) sum[c] = hn::Add(sum[c], hn::LoadU(d, data + i + c * lanes));
  }
  for (int c = 1; c < 8; ++c) sum[0] = hn::Add(sum[0], sum[c]);
  return hn::GetLane(hn::SumOfLanes(d, sum[0]));
}

}  // namespace shardlm::HWY_NAMESPACE
HWY_AFTER_NAMESPACE();

#if HWY_ONCE
namespace shardlm {

HWY_EXPORT(ReadAll);

float read_all(const float* data, std::int64_t n) { return HWY_DYNAMIC_DISPATCH(ReadAll)(data, n); }

namespace {

constexpr std::int64_t kPieceFloats = 1024;

std::size_t whole_pieces(std::size_t bytes) {
  constexpr std::size_t kPiece = kPieceFloats * sizeof(float);
  return std::max<std::size_t>((bytes + kPiece - 1) / kPiece, 1) * kPiece;
}

}  // namespace

ReadBandwidth::ReadBandwidth(std::size_t bytes, int threads)
    : threads_(threads),
      memory_(whole_pieces(bytes), "the measurement of bandwidth"),
      sums_(static_cast<std::size_t>(threads)) {
  const auto pieces = static_cast<std::int64_t>(memory_.bytes() / sizeof(float)) / kPieceFloats;
  threads_.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    std::fill_n(memory_.floats() + begin * kPieceFloats, (end - begin) * kPieceFloats, 1.0F);
  });
}

double ReadBandwidth::pass_s() {
  using Clock = std::chrono::steady_clock;
  const auto pieces = static_cast<std::int64_t>(memory_.bytes() / sizeof(float)) / kPieceFloats;
  const auto start = Clock::now();
  threads_.parallel_for(pieces, 1, [&](std::int64_t begin, std::int64_t end, int worker) {
    sums_[static_cast<std::size_t>(worker)] =
        read_all(memory_.floats() + begin * kPieceFloats, (end - begin) * kPieceFloats);
  });
  return std::chrono::duration<double>(Clock::now() - start).count();
}

}  // namespace shardlm
#endif
