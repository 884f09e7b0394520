// The communicator of ranks that compute on CPUs: which algorithm a sum takes, whether it goes on
// in the background, and its record. How bytes travel is the transports' business (AllReducer,
// Meetings).
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "comm/algorithm_table.h"
#include "comm/all_reducer.h"
#include "comm/background.h"
#include "comm/call_record.h"
#include "comm/communicator.h"
#include "comm/meetings.h"

namespace shardlm {

/// What a group of ranks can do.
struct Transport {
  std::shared_ptr<const void> parts;  ///< what the others use: goes last
  int rank = 0, size = 1;
  std::string description;  ///< "shared memory, 2 ranks"
  std::unique_ptr<Meetings> meetings;
  const char* meetings_name = "";  ///< of records: a literal
  /// Called by all ranks together. Error(ExitCode::usage) if the choice cannot work here.
  std::function<std::unique_ptr<AllReducer>(const AllReduceChoice&)> make_reducer;
};

enum class Overlap {
  none,    ///< sums are taken where they are asked for
  poll,    ///< in the background, on the computing thread between pieces of its work
  thread,  ///< in the background, on a thread of their own
};

class HostCommunicator final : public Communicator {
 public:
  /// Made by all ranks together. The table fits every call.
  HostCommunicator(Transport transport, Backend& backend, const AlgorithmTable& table,
                   Overlap overlap = Overlap::none);
  ~HostCommunicator() override;
  HostCommunicator(const HostCommunicator&) = delete;
  HostCommunicator& operator=(const HostCommunicator&) = delete;

  int rank() const override { return transport_.rank; }
  int size() const override { return transport_.size; }
  std::string describe() const override;
  CallLog* log() override { return &log_; }
  Exactness exactness(bool fixed_point) const override;
  void set_rounding(bool on) override;

  std::optional<Tensor> addend(Site site, std::int64_t rows, std::int64_t cols,
                               DType dtype) override;
  /// Messages larger than a reducer takes go in chunks of whole rows; a row larger than that is
  /// summed by columns first.
  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override;
  /// In a prefill of two rows or more, if asked for.
  bool overlaps() const override;
  void start_all_reduce(Site site, const Tensor& addend) override;
  void finish_all_reduce(const ResidualUpdate& update) override;
  void broadcast(Site site, std::vector<std::byte>& message, int root) override;
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override;
  void barrier(Site site) override;
  void begin_step(const StepMark& step) override { log_.begin_step(step); }
  void end_step() override { log_.end_step(); }

 private:
  /// A sum that goes on in the background.
  struct Started {
    Call call;
    const AllReduceChoice* choice = nullptr;
    AllReducer* reducer = nullptr;
    Tensor addend, sum;
    CallRecord record;
    std::vector<std::byte> memory;  ///< of `sum`
  };
  struct Chosen {
    AllReducer* reducer;
    const char* name;
  };

  std::vector<Chosen> make_reducers(const std::vector<AllReduceRule>& rules);
  Call begin(Op op, Site site) { return {op, site, ++calls_}; }
  const Chosen& choose(Site site, const Tensor& addend) const;
  const Chosen& choose(Site site, std::size_t bytes) const;
  template <class Use>
  static void reduce_in_chunks(AllReducer& reducer, const Call& call, const Tensor& addend,
                               Use&& use);
  static void sum_wide_row(AllReducer& reducer, const Call& call, const Tensor& row,
                           const Tensor& sum);
  void sum_in_background(Started& started, const Chosen& chosen);

  Transport transport_;
  Backend& backend_;
  AlgorithmTable table_;
  std::vector<std::unique_ptr<AllReducer>> reducers_;
  std::vector<Chosen> of_rule_;
  std::vector<Chosen> unrounded_of_rule_;  // the same in f32, once asked for
  bool rounding_ = true;
  std::vector<std::unique_ptr<std::string>> names_;
  CallLog log_;
  std::uint64_t calls_ = 0;
  std::vector<std::byte> wide_sum_;
  std::array<Started, kMostStarted> started_;
  std::uint64_t n_started_ = 0, n_finished_ = 0;
  std::unique_ptr<Background> background_;  // last: its work uses the others
};

}  // namespace shardlm
