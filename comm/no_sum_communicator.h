// An upper bound on what faster all-reduces could give: none at all.
#pragma once

#include <memory>
#include <utility>

#include "comm/communicator.h"
#include "comm/residual_rows.h"

namespace shardlm {

/// Skips the all-reduces: each rank applies its own addend alone, so that what the model then says
/// means nothing. All else is passed on to `to`.
class NoSumCommunicator final : public Communicator {
 public:
  NoSumCommunicator(std::unique_ptr<Communicator> to, Backend& backend)
      : to_(std::move(to)), backend_(backend) {}

  int rank() const override { return to_->rank(); }
  int size() const override { return to_->size(); }
  std::string describe() const override {
    return "no sums, so results mean nothing; else " + to_->describe();
  }

  void all_reduce(Site, const Tensor& addend, const ResidualUpdate& update) override {
    check_update(addend, update);
    update_residual_rows(backend_, {&addend, 1}, update, 0, addend.rows());
  }
  void broadcast(Site site, std::vector<std::byte>& message, int root) override {
    to_->broadcast(site, message, root);
  }
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override {
    to_->gather(site, mine, all, root);
  }
  void barrier(Site site) override { to_->barrier(site); }
  void begin_step(const StepMark& step) override { to_->begin_step(step); }
  void end_step() override { to_->end_step(); }
  CallLog* log() override { return to_->log(); }
  bool recordable() const override { return true; }  // its all-reduces need nobody

 private:
  std::unique_ptr<Communicator> to_;
  Backend& backend_;
};

}  // namespace shardlm
