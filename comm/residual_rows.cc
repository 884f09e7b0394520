#include "comm/residual_rows.h"

#include "base/error.h"

namespace shardlm {

void update_residual_rows(Backend& backend, std::span<const Tensor> addends,
                          const ResidualUpdate& update, std::int64_t begin, std::int64_t end) {
  if (begin == end || addends.front().cols() == 0) return;
  Tensor residual = update.residual->row_range(begin, end);
  Tensor normed;
  ResidualUpdate part = update;
  part.residual = &residual;
  if (update.norm != nullptr) {
    normed = update.normed->row_range(begin, end);
    part.normed = &normed;
  }
  backend.update_residual(addends, part);
}

void check_update(const Tensor& addend, const ResidualUpdate& update) {
  const auto same_shape = [&addend](const Tensor* t) {
    return t != nullptr && t->rows() == addend.rows() && t->cols() == addend.cols();
  };
  check(same_shape(update.residual), "all_reduce: the residual has the addend's shape");
  check(update.norm == nullptr || same_shape(update.normed),
        "all_reduce: the normed rows have the addend's shape");
  check(update.bias == nullptr || update.bias->cols() == addend.cols(),
        "all_reduce: the bias has the addend's columns");
}

}  // namespace shardlm
