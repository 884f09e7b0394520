// An upper bound on what faster all-reduces could give: none at all.
#pragma once

#include <memory>
#include <utility>

#include "comm/borrowed_communicator.h"
#include "comm/residual_rows.h"

namespace shardlm {

/// Skips the all-reduces: each rank applies its own addend alone, so that what the model then says
/// means nothing. All else is passed on to `to`.
class NoSumCommunicator final : public BorrowedCommunicator {
 public:
  NoSumCommunicator(std::unique_ptr<Communicator> to, Backend& backend)
      : BorrowedCommunicator(*to), owned_(std::move(to)), backend_(backend) {}

  std::string describe() const override {
    return "no sums, so results mean nothing; else " + BorrowedCommunicator::describe();
  }
  std::optional<Tensor> addend(Site, std::int64_t, std::int64_t, DType = DType::f32) override {
    return std::nullopt;
  }
  void all_reduce(Site, const Tensor& addend, const ResidualUpdate& update) override {
    check_update(addend, update);
    update_residual_rows(backend_, {&addend, 1}, update, 0, addend.rows());
  }
  bool overlaps() const override { return false; }
  Exactness exactness(bool) const override { return Exactness::exact; }  // nothing is rounded
  bool recordable() const override { return true; }                      // its sums need nobody

 private:
  std::unique_ptr<Communicator> owned_;
  Backend& backend_;
};

}  // namespace shardlm
