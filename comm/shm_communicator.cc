#include "comm/shm_communicator.h"

#include <fmt/format.h>

#include <algorithm>
#include <atomic>
#include <utility>

#include "base/error.h"
#include "comm/residual_rows.h"

namespace shardlm {
namespace {

constexpr std::size_t kAlignment = 128;  // two cache lines: the prefetcher fetches them in pairs

constexpr std::uint64_t arrived_mark(std::uint64_t phase) { return 2 * phase; }
constexpr std::uint64_t done_mark(std::uint64_t phase) { return 2 * phase + 1; }

std::uint64_t load(std::uint64_t& word, std::memory_order order) {
  return std::atomic_ref(word).load(order);
}
void store(std::uint64_t& word, std::uint64_t value, std::memory_order order) {
  std::atomic_ref(word).store(value, order);
}

std::int64_t element_bytes(DType dtype) { return static_cast<std::int64_t>(bits(dtype)) / 8; }

Tensor borrow(std::byte* at, std::int64_t rows, std::int64_t cols, DType dtype) {
  if (dtype == DType::i64) return Tensor::borrow(reinterpret_cast<std::int64_t*>(at), rows, cols);
  return Tensor::borrow(reinterpret_cast<float*>(at), rows, cols);
}

template <class T>
void add(const T* from, std::int64_t n, bool first, T* to) {
  for (std::int64_t i = 0; i < n; ++i) to[i] = first ? from[i] : to[i] + from[i];
}

std::uint64_t shape_word(const Tensor& t) {
  return static_cast<std::uint64_t>(t.rows()) << 32 | static_cast<std::uint64_t>(t.cols());
}

}  // namespace

std::size_t ShmCommunicator::segment_bytes(std::size_t slot_bytes) {
  check(slot_bytes > 0 && slot_bytes % kAlignment == 0,
        "slots are a positive multiple of 128 bytes");
  return sizeof(Flags) + 2 * slot_bytes;
}

ShmCommunicator::ShmCommunicator(int rank, ShmSegments segments, Backend& backend,
                                 const ShmOptions& options)
    : rank_(rank),
      size_(static_cast<int>(segments.base.size())),
      segments_(std::move(segments)),
      backend_(backend),
      options_(options),
      waiter_(options.oversubscribed),
      slot_bytes_((segments_.bytes_each - sizeof(Flags)) / 2 / kAlignment * kAlignment),
      addends_(segments_.base.size()) {
  check(0 <= rank_ && rank_ < size_, "the rank has a segment");
  check(segments_.bytes_each >= segment_bytes(kAlignment), "a segment holds flags and two slots");
  for (const std::byte* base : segments_.base) {
    check(reinterpret_cast<std::uintptr_t>(base) % kAlignment == 0, "segments are aligned");
  }
}

ShmCommunicator::~ShmCommunicator() { store(flags(rank_).left, 1, std::memory_order_release); }

std::string ShmCommunicator::describe() const {
  return fmt::format("shared memory, {} rank{}", size_, size_ == 1 ? "" : "s");
}

// ---- flags ----

ShmCommunicator::Flags& ShmCommunicator::flags(int rank) const {
  return *reinterpret_cast<Flags*>(segments_.base[static_cast<std::size_t>(rank)]);
}

std::byte* ShmCommunicator::slot(int rank, std::uint64_t phase) const {
  return segments_.base[static_cast<std::size_t>(rank)] + sizeof(Flags) + phase % 2 * slot_bytes_;
}

std::uint64_t ShmCommunicator::mark(int rank) const {
  return load(flags(rank).mark, std::memory_order_acquire);
}

bool ShmCommunicator::left(int rank) const {
  return load(flags(rank).left, std::memory_order_acquire) != 0;
}

ShmCommunicator::Label ShmCommunicator::label(int rank) const {
  Label& shared = flags(rank).labels[phase_ % 2];
  return {load(shared.call, std::memory_order_relaxed),
          load(shared.size, std::memory_order_relaxed)};
}

ShmCommunicator::Label ShmCommunicator::label_of(const Call& call, std::uint64_t size) {
  const auto layer = static_cast<std::uint16_t>(call.site.layer);  // -1 becomes 65535
  return {static_cast<std::uint64_t>(call.op) << 56 |
              static_cast<std::uint64_t>(call.site.kind) << 48 |
              static_cast<std::uint64_t>(layer) << 32 | (call.number & 0xffffffffU),
          size};
}

std::string ShmCommunicator::label_text(const Label& label) {
  const Call call{static_cast<Op>(label.call >> 56),
                  {static_cast<SiteKind>(label.call >> 48 & 0xff),
                   static_cast<std::int16_t>(label.call >> 32 & 0xffff)},
                  label.call & 0xffffffffU};
  if (call.op != Op::all_reduce) return call_text(call);
  return fmt::format("{} of [{}, {}]", call_text(call), label.size >> 32, label.size & 0xffffffffU);
}

// ---- phases ----

void ShmCommunicator::next_phase(const Call& call) {
  wait_for_slot(call, phase_ + 1);
  ++phase_;
}

// Until all are done with the phase that used the slot before.
void ShmCommunicator::wait_for_slot(const Call& call, std::uint64_t phase) {
  if (phase <= all_done_ + 2) return;
  wait_for(call, 0, size_, done_mark(phase - 2));
  all_done_ = phase - 2;
}

void ShmCommunicator::arrive(const Label& label) {
  Label& shared = flags(rank_).labels[phase_ % 2];
  store(shared.call, label.call, std::memory_order_relaxed);
  store(shared.size, label.size, std::memory_order_relaxed);
  store(flags(rank_).mark, arrived_mark(phase_), std::memory_order_release);
}

void ShmCommunicator::finish() {
  store(flags(rank_).mark, done_mark(phase_), std::memory_order_release);
}

void ShmCommunicator::wait_for(const Call& call, int first, int last, std::uint64_t wanted) {
  int next = first;
  const auto all_there = [&] {
    while (next < last && (next == rank_ || mark(next) >= wanted)) ++next;
    return next == last;
  };
  if (all_there()) return;
  const double limit_s = wait_limit(call, last - first == 1, options_.deadlines);
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
  for (int r = next; r < last; ++r) {
    if (r != rank_ && mark(r) < wanted && (!departed || left(r))) missing.push_back(r);
  }
  if (departed) fail_departed(call, missing);
  fail_missing(call, missing, limit_s);
}

void ShmCommunicator::wait_for_all(const Call& call) {
  wait_for(call, 0, size_, arrived_mark(phase_));
  all_done_ = phase_ - 1;
}

void ShmCommunicator::check_labels(const Call& call, const Label& mine, bool same_size) const {
  for (int r = 0; r < size_; ++r) {
    const Label theirs = label(r);
    if (theirs.call == mine.call && (!same_size || theirs.size == mine.size)) continue;
    fail_out_of_step(call, r, label_text(mine), label_text(theirs));
  }
}

// ---- collectives ----

Call ShmCommunicator::begin(Op op, Site site) {
  check(op == Op::all_reduce || !addend_given_, "an addend was given out and not reduced");
  addend_given_ = false;
  return {op, site, ++calls_};
}

std::optional<Tensor> ShmCommunicator::addend(Site site, std::int64_t rows, std::int64_t cols,
                                              DType dtype) {
  const std::int64_t bytes = rows * cols * element_bytes(dtype);
  if (bytes == 0 || std::cmp_greater(bytes, slot_bytes_)) return std::nullopt;
  wait_for_slot({Op::all_reduce, site, calls_ + 1}, phase_ + 1);
  addend_given_ = true;
  return borrow(slot(rank_, phase_ + 1), rows, cols, dtype);
}

// Brings the ranks' equal parts [rows, cols], each within a slot, into addends_.
void ShmCommunicator::exchange(const Call& call, const Label& label, const Tensor& part) {
  next_phase(call);
  const auto elements = static_cast<std::size_t>(part.elements());
  const bool in_place = elements > 0 && part.address(0) == slot(rank_);
  if (elements > 0 && !in_place && part.dtype() == DType::f32) {
    backend_.download(part, {reinterpret_cast<float*>(slot(rank_)), elements});
  } else if (!in_place) {  // fixed point: of the host alone
    const auto row_bytes = static_cast<std::size_t>(part.cols() * element_bytes(part.dtype()));
    for (std::int64_t t = 0; t < part.rows(); ++t) {
      std::copy_n(part.address(t), row_bytes,
                  slot(rank_) + static_cast<std::size_t>(t) * row_bytes);
    }
  }
  arrive(label);
  wait_for_all(call);
  check_labels(call, label, true);
  for (int r = 0; r < size_; ++r) {
    addends_[static_cast<std::size_t>(r)] = borrow(slot(r), part.rows(), part.cols(), part.dtype());
  }
}

void ShmCommunicator::all_reduce(Site site, const Tensor& addend, const ResidualUpdate& update) {
  check_update(addend, update);
  const Call call = begin(Op::all_reduce, site);
  const Label label = label_of(call, shape_word(addend));
  const std::int64_t slot_elements =
      static_cast<std::int64_t>(slot_bytes_) / element_bytes(addend.dtype());
  const std::int64_t rows_at_once = slot_elements / std::max<std::int64_t>(addend.cols(), 1);
  if (rows_at_once == 0 && addend.rows() > 0) {
    for (std::int64_t t = 0; t < addend.rows(); ++t) {
      all_reduce_wide_row(call, label, addend.row_range(t, t + 1), update, t);
    }
    return;
  }
  std::int64_t begin_row = 0;
  do {  // once even for no rows: ranks meet in every call
    const std::int64_t end_row = std::min(addend.rows(), begin_row + rows_at_once);
    exchange(call, label, addend.row_range(begin_row, end_row));
    update_residual_rows(backend_, addends_, update, begin_row, end_row);
    backend_.synchronize();  // the peers may overwrite their slots after finish()
    finish();
    begin_row = end_row;
  } while (begin_row < addend.rows());
}

void ShmCommunicator::all_reduce_wide_row(const Call& call, const Label& label, const Tensor& row,
                                          const ResidualUpdate& update, std::int64_t at) {
  const bool fixed = row.dtype() == DType::i64;
  const std::int64_t at_once = static_cast<std::int64_t>(slot_bytes_) / element_bytes(row.dtype());
  fixed ? fixed_sum_.resize(static_cast<std::size_t>(row.cols()))
        : sum_.resize(static_cast<std::size_t>(row.cols()));
  for (std::int64_t begin_col = 0; begin_col < row.cols(); begin_col += at_once) {
    const std::int64_t end_col = std::min(row.cols(), begin_col + at_once);
    exchange(call, label, row.columns(begin_col, end_col));
    const std::int64_t n = end_col - begin_col;
    for (int r = 0; r < size_; ++r) {
      const Tensor& addend = addends_[static_cast<std::size_t>(r)];
      fixed ? add(addend.fixed_row(0), n, r == 0, fixed_sum_.data() + begin_col)
            : add(addend.row(0), n, r == 0, sum_.data() + begin_col);
    }
    finish();
  }
  const Tensor sum = fixed ? Tensor::borrow(fixed_sum_.data(), 1, row.cols())
                           : Tensor::borrow(sum_.data(), 1, row.cols());
  update_residual_rows(backend_, {&sum, 1}, update, at, at + 1);
  backend_.synchronize();  // sum_ is used again
}

void ShmCommunicator::broadcast(Site site, std::vector<std::byte>& message, int root) {
  const Call call = begin(Op::broadcast, site);
  std::size_t total = message.size();
  std::size_t at = 0;
  do {
    if (rank_ == root) {
      next_phase(call);
      const std::size_t bytes = std::min(slot_bytes_, total - at);
      std::copy_n(message.data() + at, bytes, slot(rank_));
      arrive(label_of(call, total));
    } else {
      ++phase_;  // writes no slot, so it need not wait for one
      wait_for(call, root, root + 1, arrived_mark(phase_));
      const Label theirs = label(root);
      const Label mine = label_of(call, theirs.size);
      if (theirs != mine) fail_out_of_step(call, root, label_text(mine), label_text(theirs));
      total = theirs.size;
      message.resize(total);
      std::copy_n(slot(root), std::min(slot_bytes_, total - at), message.data() + at);
    }
    finish();
    at += slot_bytes_;
  } while (at < total);
}

void ShmCommunicator::gather(Site site, std::span<const std::byte> mine,
                             std::vector<std::vector<std::byte>>& all, int root) {
  const Call call = begin(Op::gather, site);
  const Label label_of_mine = label_of(call, mine.size());
  if (rank_ == root) all.resize(static_cast<std::size_t>(size_));
  std::size_t longest = 0;
  std::size_t at = 0;
  const auto part_at = [this, &at](std::size_t total) {
    return std::min(slot_bytes_, total - std::min(at, total));
  };
  do {
    next_phase(call);
    std::copy_n(mine.data() + std::min(at, mine.size()), part_at(mine.size()), slot(rank_));
    arrive(label_of_mine);
    // All wait for all, so that each knows the longest message and with it the number of phases.
    wait_for_all(call);
    check_labels(call, label_of_mine, false);
    for (int r = 0; r < size_; ++r) {
      const std::size_t bytes = label(r).size;
      longest = std::max(longest, bytes);
      if (rank_ != root) continue;
      std::vector<std::byte>& theirs = all[static_cast<std::size_t>(r)];
      theirs.resize(bytes);
      std::copy_n(slot(r), part_at(bytes), theirs.data() + std::min(at, bytes));
    }
    finish();
    at += slot_bytes_;
  } while (at < longest);
}

void ShmCommunicator::barrier(Site site) {
  const Call call = begin(Op::barrier, site);
  const Label label = label_of(call, 0);
  next_phase(call);
  arrive(label);
  wait_for_all(call);
  check_labels(call, label, true);
  finish();
}

}  // namespace shardlm
