// A group of one: the null object of Communicator.
#pragma once

#include "comm/call_record.h"
#include "comm/communicator.h"
#include "comm/residual_rows.h"

namespace shardlm {

class SelfCommunicator final : public Communicator {
 public:
  explicit SelfCommunicator(Backend& backend) : backend_(backend) {}

  int rank() const override { return 0; }
  int size() const override { return 1; }
  std::string describe() const override { return "1 rank, no communication"; }

  void all_reduce(Site, const Tensor& addend, const ResidualUpdate& update) override {
    check_update(addend, update);
    update_residual_rows(backend_, {&addend, 1}, update, 0, addend.rows());
  }
  void broadcast(Site, std::vector<std::byte>&, int) override {}
  void gather(Site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int) override {
    all.resize(1);
    all[0].assign(mine.begin(), mine.end());
  }
  void barrier(Site) override {}
  void begin_step(const StepMark& step) override { log_.begin_step(step); }
  void end_step() override { log_.end_step(); }
  CallLog* pass_log() override { return &log_; }
  bool recordable() const override { return true; }

 private:
  Backend& backend_;
  CallLog log_;
};

}  // namespace shardlm
