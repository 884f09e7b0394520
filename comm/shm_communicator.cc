#include "comm/shm_communicator.h"

#include <algorithm>
#include <utility>

#include "base/error.h"
#include "comm/residual_rows.h"

namespace shardlm {

ShmCommunicator::ShmCommunicator(int rank, ShmSegments segments, Backend& backend,
                                 const ShmOptions& options)
    : backend_(backend),
      team_(rank, std::move(segments), options),
      meetings_(team_),
      reducer_(team_, backend) {}

std::optional<Tensor> ShmCommunicator::addend(Site site, std::int64_t rows, std::int64_t cols,
                                              DType dtype) {
  if (dtype != DType::f32) return std::nullopt;
  return reducer_.addend({Op::all_reduce, site, calls_ + 1}, rows, cols, dtype);
}

void ShmCommunicator::all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) {
  check_update(addend, update);
  const Call call{Op::all_reduce, site, ++calls_};
  const auto slot_floats = static_cast<std::int64_t>(reducer_.most_bytes() / sizeof(float));
  const std::int64_t rows_at_once = slot_floats / std::max<std::int64_t>(addend.cols(), 1);
  if (rows_at_once == 0 && addend.rows() > 0) {
    for (std::int64_t t = 0; t < addend.rows(); ++t) {
      all_reduce_wide_row(call, addend.row_range(t, t + 1), update, t);
    }
    return;
  }
  std::int64_t begin_row = 0;
  do {  // once even for no rows: ranks meet in every call
    const std::int64_t end_row = std::min(addend.rows(), begin_row + rows_at_once);
    update_residual_rows(backend_, reducer_.reduce(call, addend.row_range(begin_row, end_row)),
                         update, begin_row, end_row);
    reducer_.release();
    begin_row = end_row;
  } while (begin_row < addend.rows());
}

void ShmCommunicator::all_reduce_wide_row(const Call& call, const Tensor& row,
                                          const ResidualUpdate& update, std::int64_t at) {
  const auto slot_floats = static_cast<std::int64_t>(reducer_.most_bytes() / sizeof(float));
  sum_.resize(static_cast<std::size_t>(row.cols()));
  for (std::int64_t begin_col = 0; begin_col < row.cols(); begin_col += slot_floats) {
    const std::int64_t end_col = std::min(row.cols(), begin_col + slot_floats);
    const std::span<const Tensor> addends = reducer_.reduce(call, row.columns(begin_col, end_col));
    float* const sum = sum_.data() + begin_col;
    std::copy_n(addends[0].row(0), end_col - begin_col, sum);
    for (const Tensor& addend : addends.subspan(1)) {
      for (std::int64_t j = 0; j < end_col - begin_col; ++j) sum[j] += addend.row(0)[j];
    }
    reducer_.release();
  }
  const Tensor sum = fixed ? Tensor::borrow(fixed_sum_.data(), 1, row.cols())
                           : Tensor::borrow(sum_.data(), 1, row.cols());
  update_residual_rows(backend_, {&sum, 1}, update, at, at + 1);
  backend_.synchronize();  // sum_ is used again
}

void ShmCommunicator::broadcast(Site site, std::vector<std::byte>& message, int root) {
  meetings_.broadcast({Op::broadcast, site, ++calls_}, message, root);
}

void ShmCommunicator::gather(Site site, std::span<const std::byte> mine,
                             std::vector<std::vector<std::byte>>& all, int root) {
  meetings_.gather({Op::gather, site, ++calls_}, mine, all, root);
}

void ShmCommunicator::barrier(Site site) { meetings_.barrier({Op::barrier, site, ++calls_}); }

}  // namespace shardlm
