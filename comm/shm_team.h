// Ranks that map each other's memory: segments, flags, phases. What the collectives over shared
// memory are made of; it knows nothing of what they carry.
//
// Each rank owns a segment: a line of flags that it alone writes, and two slots for data. A
// collective is one or more *phases*, numbered from 1 on all ranks alike, and a phase has *steps*.
// In phase s a rank
//   1. waits until all ranks are done with phase s-2, whose slot (s mod 2) it is about to reuse,
//   2. puts its data into that slot and marks step 1 (a release store): a matmul may have written
//      an all-reduce's addend there in the first place (next_slot()),
//   3. waits for the marks of those whose data it wants (acquire loads), and reads their slots;
//      2 and 3 may repeat with further steps,
//   4. marks itself done.
// A mark is the phase and the step in one number that only grows, so nothing is ever reset, and a
// wait is one comparison. Waiting for the slot costs nothing after a phase in which the rank waited
// for all the others: their arrival in s-1 says that they are done with s-2.
#pragma once

#include <cstddef>
#include <cstdint>
#include <memory>
#include <string>
#include <vector>

#include "comm/algorithm.h"
#include "comm/call.h"
#include "comm/communicator.h"
#include "comm/wait.h"

namespace shardlm {

/// The ranks' segments as this rank sees them. Each is aligned to 128 bytes, holds `bytes_each`
/// bytes, and its first 128 bytes were zero before any rank made its team.
struct ShmSegments {
  std::vector<std::byte*> base;
  std::size_t bytes_each = 0;
  std::shared_ptr<void> owner = {};  ///< keeps the memory mapped; may be empty
};

struct ShmOptions {
  Deadlines deadlines;
  bool oversubscribed = false;  ///< more ranks on this node than cores: never spin
  /// A rank that ends its team while others wait for it has failed and is about to say why and to
  /// end the job. So long do the others hold back with their own message.
  double departed_grace_s = 2;
  /// The ranks' numbers in the job, by which errors name them; empty: those of the team.
  std::vector<int> job_ranks = {};
};

/// What a rank tells of its current call, for the others to compare with theirs.
struct ShmLabel {
  std::uint64_t call = 0;  ///< op, site and call number, packed
  std::uint64_t size = 0;  ///< all_reduce: rows and columns; otherwise the bytes of its message
  std::uint64_t how = 0;   ///< all_reduce: algorithm, wire format and element type
  bool operator==(const ShmLabel&) const = default;
};
ShmLabel message_label(const Call& call, std::size_t bytes);
ShmLabel sum_label(const Call& call, const Tensor& addend, Algorithm algorithm, WireFormat wire);

/// One rank's end. Its users (the collectives) all run on this rank's one thread, one call after
/// another, in the same order on all ranks.
class ShmTeam {
 public:
  static constexpr std::size_t kSlotBytes = std::size_t{256} << 10;
  /// Data in slots is best cut at multiples of this: two cache lines, since the prefetcher fetches
  /// them in pairs.
  static constexpr std::size_t kAlignment = 128;
  /// Bytes of a segment whose slots hold `slot_bytes` each (a positive multiple of kAlignment).
  static std::size_t segment_bytes(std::size_t slot_bytes = kSlotBytes);

  ShmTeam(int rank, ShmSegments segments, const ShmOptions& options);
  ~ShmTeam();
  ShmTeam(const ShmTeam&) = delete;
  ShmTeam& operator=(const ShmTeam&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  std::size_t slot_bytes() const { return slot_bytes_; }
  std::string describe() const;  ///< "shared memory, 2 ranks"

  /// This rank's slot of the next phase, once nobody reads it any more: to be filled before the
  /// phase begins. The next call must then be an all_reduce.
  std::byte* next_slot(const Call& call);

  /// Begins a phase in which this rank writes its slot, or (a receiver) does not.
  void begin_phase(const Call& call);
  void begin_phase_without_slot(const Call& call);
  /// A rank's slot in this phase. Written by its owner, or by whom the collective says.
  std::byte* slot(int rank) const { return slot(rank, phase_); }

  /// Tells the others: the label and what goes with step 1; then that a later step is reached.
  void arrive(const ShmLabel& label);
  void reach(std::uint32_t step);
  /// Until this one has arrived.
  void wait_for(const Call& call, int rank);
  /// Until all have come to the step of this phase.
  void wait_for_all(const Call& call, std::uint32_t step = 1);
  /// Until the first `ranks` have. `indirect`: they wait for others meanwhile; this rank waits a
  /// little longer than they do, so that the one that knows the culprit speaks first.
  void wait_for_first(const Call& call, std::uint32_t step, int ranks, bool indirect);
  /// Does not wait.
  bool has_reached(int rank, std::uint32_t step) const;
  /// The label of a rank that has arrived.
  ShmLabel label(int rank) const;
  /// Fails with ExitCode::bug unless all that have arrived are in this call.
  void check_label(const Call& call, const ShmLabel& mine, int rank, bool same_size = true) const;
  void check_labels(const Call& call, const ShmLabel& mine, bool same_size = true) const;
  /// This rank reads the slots of this phase no more.
  void finish();

 private:
  /// The first line of a segment: written by its owner, read by all, through atomic_ref. One line
  /// brings the mark and what it is the mark of.
  struct alignas(kAlignment) Flags {
    std::uint64_t mark = 0;
    ShmLabel labels[2] = {};  ///< of phase s at [s mod 2]
    std::uint64_t left = 0;   ///< 1: the owner has ended its team
  };

  Flags& flags(int rank) const;
  std::byte* slot(int rank, std::uint64_t phase) const;
  std::uint64_t mark(int rank) const;
  bool left(int rank) const;
  int job_rank(int rank) const;
  LastSeen last_seen(int rank) const;

  void wait_for_slot(const Call& call, std::uint64_t phase);
  void wait_for_mark(const Call& call, int first, int last, std::uint64_t mark,
                     bool indirect = false);

  int rank_;
  int size_;
  ShmSegments segments_;
  ShmOptions options_;
  Waiter waiter_;
  std::size_t slot_bytes_;
  std::uint64_t phase_ = 0;
  std::uint64_t all_done_ = 0;  ///< all ranks are known to be done with this phase
  bool slot_given_ = false;     ///< the next slot is being written: the next call is all_reduce
};

}  // namespace shardlm
