#include "comm/shm_team.h"

#include <fmt/format.h>

#include <atomic>
#include <utility>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::uint64_t kStepBits = 16;
constexpr std::uint64_t kDone = (1U << kStepBits) - 1;  // after every step of a phase

constexpr std::uint64_t mark_of(std::uint64_t phase, std::uint64_t step) {
  return phase << kStepBits | step;
}

std::uint64_t load(std::uint64_t& word, std::memory_order order) {
  return std::atomic_ref(word).load(order);
}
void store(std::uint64_t& word, std::uint64_t value, std::memory_order order) {
  std::atomic_ref(word).store(value, order);
}

std::uint64_t call_word(const Call& call) {
  const auto layer = static_cast<std::uint16_t>(call.site.layer);  // -1 becomes 65535
  return static_cast<std::uint64_t>(call.op) << 56 |
         static_cast<std::uint64_t>(call.site.kind) << 48 |
         static_cast<std::uint64_t>(layer) << 32 | (call.number & 0xffffffffU);
}

Call call_of(std::uint64_t word) {
  return {
      static_cast<Op>(word >> 56),
      {static_cast<SiteKind>(word >> 48 & 0xff), static_cast<std::int16_t>(word >> 32 & 0xffff)},
      word & 0xffffffffU};
}

std::string label_text(const ShmLabel& label, bool with_how) {
  const Call call = call_of(label.call);
  if (call.op != Op::all_reduce) return call_text(call);
  std::string text =
      fmt::format("{} of [{}, {}]", call_text(call), label.size >> 32, label.size & 0xffffffffU);
  if (with_how) {
    text += fmt::format(" {} by {} in {}", name(static_cast<DType>(label.how & 0xff)),
                        name(static_cast<Algorithm>(label.how >> 16 & 0xff)),
                        name(static_cast<WireFormat>(label.how >> 8 & 0xff)));
  }
  return text;
}

}  // namespace

ShmLabel message_label(const Call& call, std::size_t bytes) { return {call_word(call), bytes, 0}; }

ShmLabel sum_label(const Call& call, const Tensor& addend, Algorithm algorithm, WireFormat wire) {
  return {
      call_word(call),
      static_cast<std::uint64_t>(addend.rows()) << 32 | static_cast<std::uint64_t>(addend.cols()),
      static_cast<std::uint64_t>(algorithm) << 16 | static_cast<std::uint64_t>(wire) << 8 |
          static_cast<std::uint64_t>(addend.dtype())};
}

std::size_t ShmTeam::segment_bytes(std::size_t slot_bytes) {
  check(slot_bytes > 0 && slot_bytes % kAlignment == 0,
        "slots are a positive multiple of 128 bytes");
  return sizeof(Flags) + 2 * slot_bytes;
}

ShmTeam::ShmTeam(int rank, ShmSegments segments, const ShmOptions& options)
    : rank_(rank),
      size_(static_cast<int>(segments.base.size())),
      segments_(std::move(segments)),
      options_(options),
      waiter_(options.oversubscribed),
      slot_bytes_((segments_.bytes_each - sizeof(Flags)) / 2 / kAlignment * kAlignment) {
  check(0 <= rank_ && rank_ < size_, "the rank has a segment");
  check(options_.job_ranks.empty() || std::cmp_equal(options_.job_ranks.size(), size_),
        "each rank of the team has a number in the job");
  check(segments_.bytes_each >= segment_bytes(kAlignment), "a segment holds flags and two slots");
  for (const std::byte* base : segments_.base) {
    check(reinterpret_cast<std::uintptr_t>(base) % kAlignment == 0, "segments are aligned");
  }
}

ShmTeam::~ShmTeam() { store(flags(rank_).left, 1, std::memory_order_release); }

std::string ShmTeam::describe() const {
  return fmt::format("shared memory, {} rank{}", size_, size_ == 1 ? "" : "s");
}

// ---- flags ----

ShmTeam::Flags& ShmTeam::flags(int rank) const {
  return *reinterpret_cast<Flags*>(segments_.base[static_cast<std::size_t>(rank)]);
}

std::byte* ShmTeam::slot(int rank, std::uint64_t phase) const {
  return segments_.base[static_cast<std::size_t>(rank)] + sizeof(Flags) + phase % 2 * slot_bytes_;
}

std::uint64_t ShmTeam::mark(int rank) const {
  return load(flags(rank).mark, std::memory_order_acquire);
}

bool ShmTeam::left(int rank) const {
  return load(flags(rank).left, std::memory_order_acquire) != 0;
}

int ShmTeam::job_rank(int rank) const {
  return options_.job_ranks.empty() ? rank : options_.job_ranks[static_cast<std::size_t>(rank)];
}

// The later of the two calls that the rank's labels tell of.
LastSeen ShmTeam::last_seen(int rank) const {
  Flags& theirs = flags(rank);
  Call last;
  for (ShmLabel& label : theirs.labels) {
    const Call call = call_of(load(label.call, std::memory_order_relaxed));
    if (call.number >= last.number) last = call;
  }
  return {job_rank(rank), last};
}

ShmLabel ShmTeam::label(int rank) const {
  ShmLabel& shared = flags(rank).labels[phase_ % 2];
  return {load(shared.call, std::memory_order_relaxed),
          load(shared.size, std::memory_order_relaxed),
          load(shared.how, std::memory_order_relaxed)};
}

void ShmTeam::check_label(const Call& call, const ShmLabel& mine, int rank, bool same_size) const {
  const ShmLabel theirs = label(rank);
  if (theirs == mine) return;
  const bool alike = theirs.call == mine.call && theirs.how == mine.how;
  if (alike && !same_size) return;
  const bool with_how = theirs.call == mine.call && theirs.how != mine.how;
  fail_out_of_step(call, job_rank(rank), label_text(mine, with_how), label_text(theirs, with_how));
}

void ShmTeam::check_labels(const Call& call, const ShmLabel& mine, bool same_size) const {
  for (int r = 0; r < size_; ++r) check_label(call, mine, r, same_size);
}

// ---- phases ----

std::byte* ShmTeam::next_slot(const Call& call) {
  wait_for_slot(call, phase_ + 1);
  slot_given_ = true;
  return slot(rank_, phase_ + 1);
}

void ShmTeam::begin_phase(const Call& call) {
  wait_for_slot(call, phase_ + 1);
  begin_phase_without_slot(call);
}

void ShmTeam::begin_phase_without_slot(const Call& call) {
  check(call.op == Op::all_reduce || !slot_given_, "an addend was given out and not reduced");
  slot_given_ = false;
  ++phase_;
}

// Until all are done with the phase that used the slot before.
void ShmTeam::wait_for_slot(const Call& call, std::uint64_t phase) {
  if (phase <= all_done_ + 2) return;
  wait_for_mark(call, 0, size_, mark_of(phase - 2, kDone));
  all_done_ = phase - 2;
}

void ShmTeam::arrive(const ShmLabel& label) {
  ShmLabel& shared = flags(rank_).labels[phase_ % 2];
  store(shared.call, label.call, std::memory_order_relaxed);
  store(shared.size, label.size, std::memory_order_relaxed);
  store(shared.how, label.how, std::memory_order_relaxed);
  reach(1);
}

void ShmTeam::reach(std::uint32_t step) {
  store(flags(rank_).mark, mark_of(phase_, step), std::memory_order_release);
}

void ShmTeam::finish() { reach(kDone); }

void ShmTeam::wait_for_mark(const Call& call, int first, int last, std::uint64_t wanted,
                            bool indirect) {
  int next = first;
  const auto all_there = [&] {
    while (next < last && (next == rank_ || mark(next) >= wanted)) ++next;
    return next == last;
  };
  if (all_there()) return;
  const double own_limit_s = wait_limit(call, last - first == 1, options_.deadlines);
  const double limit_s = indirect ? limit_behind(own_limit_s) : own_limit_s;
  Backoff backoff(waiter_, limit_s);
  bool departed = false;
  while (!all_there()) {
    // The mark is read again after `left`: the rank may have come and gone in between.
    if (!departed && left(next) && mark(next) < wanted) {
      departed = true;
      backoff.shorten(options_.departed_grace_s);
    }
    if (!backoff.pause() && !all_there()) break;
  }
  if (next == last) return;
  std::vector<int> missing;
  std::vector<LastSeen> seen;
  for (int r = next; r < last; ++r) {
    if (r == rank_ || mark(r) >= wanted || (departed && !left(r))) continue;
    missing.push_back(job_rank(r));
    seen.push_back(last_seen(r));
  }
  if (departed) fail_departed(call, missing);
  fail_missing(call, missing, limit_s, seen);
}

void ShmTeam::wait_for(const Call& call, int rank) {
  wait_for_mark(call, rank, rank + 1, mark_of(phase_, 1));
}

void ShmTeam::wait_for_all(const Call& call, std::uint32_t step) {
  wait_for_mark(call, 0, size_, mark_of(phase_, step));
  all_done_ = phase_ - 1;
}

bool ShmTeam::has_reached(int rank, std::uint32_t step) const {
  return mark(rank) >= mark_of(phase_, step);
}

void ShmTeam::wait_for_first(const Call& call, std::uint32_t step, int ranks, bool indirect) {
  wait_for_mark(call, 0, ranks, mark_of(phase_, step), indirect);
}

}  // namespace shardlm
