// A communicator that someone else owns: for what wants to own its host's (make_gpu_communicator)
// where ranks of tests and tools keep theirs, and as the base of layers that change a few calls.
#pragma once

#include "comm/communicator.h"

namespace shardlm {

/// Passes everything on to `to`, which lives longer.
class BorrowedCommunicator : public Communicator {
 public:
  explicit BorrowedCommunicator(Communicator& to) : to_(to) {}
  int rank() const override { return to_.rank(); }
  int size() const override { return to_.size(); }
  std::string describe() const override { return to_.describe(); }
  std::optional<Tensor> addend(Site site, std::int64_t rows, std::int64_t cols,
                               DType dtype) override {
    return to_.addend(site, rows, cols, dtype);
  }
  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override {
    to_.all_reduce(site, addend, update);
  }
  bool overlaps() const override { return to_.overlaps(); }
  void start_all_reduce(Site site, const Tensor& addend) override {
    to_.start_all_reduce(site, addend);
  }
  void finish_all_reduce(const ResidualUpdate& update) override { to_.finish_all_reduce(update); }
  void broadcast(Site site, std::vector<std::byte>& message, int root) override {
    to_.broadcast(site, message, root);
  }
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override {
    to_.gather(site, mine, all, root);
  }
  void barrier(Site site) override { to_.barrier(site); }
  Exactness exactness(bool fixed_point) const override { return to_.exactness(fixed_point); }
  void set_rounding(bool on) override { to_.set_rounding(on); }
  void begin_step(const StepMark& step) override { to_.begin_step(step); }
  void end_step() override { to_.end_step(); }
  CallLog* log() override { return to_.log(); }
  CallLog* pass_log() override { return to_.pass_log(); }
  void record_device_calls(std::size_t capacity) override { to_.record_device_calls(capacity); }
  const CallLog* device_log() override { return to_.device_log(); }
  bool recordable() const override { return to_.recordable(); }

 private:
  Communicator& to_;
};

}  // namespace shardlm
