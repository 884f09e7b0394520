// Collectives over memory that all ranks map: plain loads and stores, one wait a call.
//
// Each rank owns a segment: a line of flags that it alone writes, and two slots for data. A
// collective is one or more *phases*, numbered from 1 on all ranks alike. In phase s a rank
//   1. waits until all ranks are done with phase s-2, whose slot (s mod 2) it is about to reuse,
//   2. puts its data into that slot and marks itself arrived (2s, a release store): a matmul may
//      have written an all-reduce's addend there in the first place (addend()),
//   3. waits for the marks of those whose data it wants (acquire loads), and reads their slots,
//   4. marks itself done (2s+1).
// The marks only grow, so nothing is ever reset, and a wait is one comparison. Step 1 costs nothing
// after a phase in which the rank waited for all the others: their arrival in s-1 says that they
// are done with s-2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <vector>

#include "comm/call.h"
#include "comm/communicator.h"
#include "comm/wait.h"

namespace shardlm {

/// The ranks' segments as this rank sees them. Each is aligned to 128 bytes, holds `bytes_each`
/// bytes, and its first 128 bytes were zero before any rank made its communicator.
struct ShmSegments {
  std::vector<std::byte*> base;
  std::size_t bytes_each = 0;
  std::shared_ptr<void> owner = {};  ///< keeps the memory mapped; may be empty
};

struct ShmOptions {
  Deadlines deadlines;
  bool oversubscribed = false;  ///< more ranks on this node than cores: never spin
  /// A rank that ends its communicator while others wait for it has failed and is about to say why
  /// and to end the job. So long do the others hold back with their own message.
  double departed_grace_s = 2;
};

class ShmCommunicator final : public Communicator {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{256} << 10;
  /// Bytes of a segment whose slots hold `slot_bytes` each (a positive multiple of 128).
  static std::size_t segment_bytes(std::size_t slot_bytes = kSlotBytes);

  ShmCommunicator(int rank, ShmSegments segments, Backend& backend, const ShmOptions& options);
  ~ShmCommunicator() override;
  ShmCommunicator(const ShmCommunicator&) = delete;
  ShmCommunicator& operator=(const ShmCommunicator&) = delete;

  int rank() const override { return rank_; }
  int size() const override { return size_; }
  std::string describe() const override;

  /// In this rank's slot, if the addend fits one.
  std::optional<Tensor> addend(Site site, std::int64_t rows, std::int64_t cols,
                               DType dtype) override;
  /// The addends are summed straight from the ranks' slots, in one pass with the update. Messages
  /// above a slot go in chunks of whole rows; a row above a slot is summed by columns first.
  void all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) override;
  void broadcast(Site site, std::vector<std::byte>& message, int root) override;
  void gather(Site site, std::span<const std::byte> mine, std::vector<std::vector<std::byte>>& all,
              int root) override;
  void barrier(Site site) override;

 private:
  /// What a rank tells of its current call, for the others to compare with theirs.
  struct Label {
    std::uint64_t call = 0;  ///< op, site and call number, packed
    std::uint64_t size = 0;  ///< all_reduce: rows and columns; otherwise the bytes of its message
    bool operator==(const Label&) const = default;
  };
  /// The first 128 bytes of a segment: written by its owner, read by all, through atomic_ref.
  struct alignas(128) Flags {
    std::uint64_t mark = 0;  ///< 2s: arrived in phase s; 2s+1: done with it
    Label labels[2] = {};    ///< of phase s at [s mod 2]
    std::uint64_t left = 0;  ///< 1: the owner has ended its communicator
  };

  static Label label_of(const Call& call, std::uint64_t size);
  static std::string label_text(const Label& label);

  Flags& flags(int rank) const;
  std::byte* slot(int rank, std::uint64_t phase) const;
  std::byte* slot(int rank) const { return slot(rank, phase_); }
  std::uint64_t mark(int rank) const;
  bool left(int rank) const;
  Label label(int rank) const;

  Call begin(Op op, Site site);
  void next_phase(const Call& call);
  void wait_for_slot(const Call& call, std::uint64_t phase);
  void arrive(const Label& label);
  void finish();
  void wait_for(const Call& call, int first, int last, std::uint64_t mark);
  void wait_for_all(const Call& call);
  void check_labels(const Call& call, const Label& mine, bool same_size) const;
  void exchange(const Call& call, const Label& label, const Tensor& part);
  void all_reduce_wide_row(const Call& call, const Label& label, const Tensor& row,
                           const ResidualUpdate& update, std::int64_t at);

  int rank_;
  int size_;
  ShmSegments segments_;
  Backend& backend_;
  ShmOptions options_;
  Waiter waiter_;
  std::size_t slot_bytes_;
  std::uint64_t calls_ = 0;
  std::uint64_t phase_ = 0;
  std::uint64_t all_done_ = 0;           ///< all ranks are known to be done with this phase
  std::vector<Tensor> addends_;          ///< the ranks' slots of the current phase
  std::vector<float> sum_;               ///< a row above a slot
  std::vector<std::int64_t> fixed_sum_;  ///< the same in fixed point
  bool addend_given_ = false;  ///< the next slot is being written: the next call is all_reduce
};

}  // namespace shardlm
