#include "backend/cpu/packed_matrix.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr const char* kPurpose = "a weight matrix";
constexpr std::int64_t kOutputsAtOnce = 16;  // one cache line of a panel's row

std::size_t packed_bytes(std::int64_t in, std::int64_t out) {
  check(in >= 0 && out >= 0, "a weight matrix has no negative size");
  const auto width = static_cast<std::size_t>((out + PackedMatrix::kPanel - 1) /
                                              PackedMatrix::kPanel * PackedMatrix::kPanel);
  return checked_product(checked_product(width, static_cast<std::size_t>(in), kPurpose),
                         sizeof(float), kPurpose);
}

}  // namespace

PackedMatrix::PackedMatrix(const MatrixSource& source, ThreadPool& threads)
    : in_(source.in), out_(source.out), memory_(packed_bytes(source.in, source.out), kPurpose) {
  if (in_ == 0 || out_ == 0) return;
  if (source.rows_are_outputs) {
    fill_by_outputs(source, threads);
  } else {
    fill_by_inputs(source, threads);
  }
}

void PackedMatrix::fill_by_inputs(const MatrixSource& source, ThreadPool& threads) {
  threads.parallel_for(in_, 1, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    std::vector<float> row(static_cast<std::size_t>(out_));
    for (std::int64_t k = begin; k < end; ++k) {
      source.read_row(k, row);
      for (std::int64_t p = 0; p < panels(); ++p) {
        const std::int64_t first = p * kPanel;
        std::copy_n(row.data() + first, std::min(kPanel, out_ - first),
                    memory_.floats() + (p * in_ + k) * kPanel);
      }
    }
  });
}

void PackedMatrix::fill_by_outputs(const MatrixSource& source, ThreadPool& threads) {
  const std::int64_t groups = (out_ + kOutputsAtOnce - 1) / kOutputsAtOnce;
  threads.parallel_for(groups, 1, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    const auto length = static_cast<std::size_t>(in_);
    std::vector<float> rows(length * kOutputsAtOnce);
    for (std::int64_t group = begin; group < end; ++group) {
      const std::int64_t first = group * kOutputsAtOnce;
      const std::int64_t count = std::min(kOutputsAtOnce, out_ - first);
      for (std::int64_t j = 0; j < count; ++j) {
        source.read_row(first + j, {rows.data() + static_cast<std::size_t>(j) * length, length});
      }
      float* to = memory_.floats() + first / kPanel * in_ * kPanel + first % kPanel;
      for (std::int64_t k = 0; k < in_; ++k) {
        for (std::int64_t j = 0; j < count; ++j) to[k * kPanel + j] = rows.data()[j * in_ + k];
      }
    }
  });
}

}  // namespace shardlm
