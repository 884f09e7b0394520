#include "study/call_timing.h"

#include <algorithm>
#include <cmath>
#include <numeric>

#include "base/philox.h"
#include "comm/ticks.h"

namespace shardlm {
namespace {

constexpr Site kSite{SiteKind::mlp_out, -1};
constexpr std::int64_t kRowFloats = 4096;  // a message is whole rows, of at most so many
constexpr std::size_t kPattern = 4099;     // random values before they come again: no round number

std::int64_t rows_of(std::size_t bytes) {
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / sizeof(float)) / kRowFloats);
}

// From -1 to 1, the same wherever it is asked for.
std::vector<float> pattern_of(int rank) {
  std::vector<float> values;
  for (std::size_t i = 0; i < kPattern; ++i) {
    const auto words =
        philox4x32_10({static_cast<std::uint32_t>(i), static_cast<std::uint32_t>(rank), 1, 0}, {});
    values.push_back(static_cast<float>(words[0]) * 0x1p-31F - 1);
  }
  return values;
}

/// The sums of the patterns of all ranks, and how far off they may be.
struct Reference {
  explicit Reference(int ranks) : sum(kPattern), allowed(kPattern) {
    for (int r = 0; r < ranks; ++r) {
      const std::vector<float> values = pattern_of(r);
      for (std::size_t i = 0; i < kPattern; ++i) {
        sum[i] += values[i];
        allowed[i] += ranks * 0x1p-24 * std::abs(values[i]);
      }
    }
  }
  std::vector<double> sum, allowed;
};

std::byte byte_at(std::size_t i, int rank) {
  return static_cast<std::byte>((i * 31 + static_cast<std::size_t>(rank) * 7 + 1) & 255);
}

std::uint64_t wrong_bytes(std::span<const std::byte> found, std::size_t expected, int rank) {
  if (found.size() != expected) return std::max<std::size_t>(expected, 1);
  std::uint64_t wrong = 0;
  for (std::size_t i = 0; i < expected; ++i) wrong += found[i] != byte_at(i, rank) ? 1 : 0;
  return wrong;
}

/// From rank 0 to the others.
class BroadcastCall final : public TimedCall {
 public:
  explicit BroadcastCall(std::size_t bytes) : bytes_(bytes), message_(bytes) {}
  std::size_t bytes() const override { return bytes_; }
  std::uint64_t n_wrong(Communicator& comm, Communicator&) override {
    message_.assign(comm.rank() == 0 ? bytes_ : 0, std::byte{0});
    for (std::size_t i = 0; i < message_.size(); ++i) message_[i] = byte_at(i, 0);
    call(comm);
    return wrong_bytes(message_, bytes_, 0);
  }

 private:
  void call(Communicator& comm) override { comm.broadcast(kSite, message_, 0); }
  std::size_t bytes_;
  std::vector<std::byte> message_;
};

/// From all ranks to rank 0.
class GatherCall final : public TimedCall {
 public:
  explicit GatherCall(std::size_t bytes) : message_(bytes) {}
  std::size_t bytes() const override { return message_.size(); }
  std::uint64_t n_wrong(Communicator& comm, Communicator&) override {
    for (std::size_t i = 0; i < message_.size(); ++i) message_[i] = byte_at(i, comm.rank());
    call(comm);
    std::uint64_t wrong = 0;
    for (std::size_t r = 0; comm.rank() == 0 && r < all_.size(); ++r)
      wrong += wrong_bytes(all_[r], message_.size(), static_cast<int>(r));
    return wrong;
  }

 private:
  void call(Communicator& comm) override { comm.gather(kSite, message_, all_, 0); }
  std::vector<std::byte> message_;
  std::vector<std::vector<std::byte>> all_;
};

class BarrierCall final : public TimedCall {
 public:
  std::size_t bytes() const override { return 0; }
  std::uint64_t n_wrong(Communicator&, Communicator&) override { return 0; }

 private:
  void call(Communicator& comm) override { comm.barrier(kSite); }
};

}  // namespace

double TimedCall::call_us(Communicator& comm, Communicator& meet,
                          const std::function<void()>& before) {
  prepare(comm);
  if (before) before();
  meet.barrier(kSite);
  const std::int64_t start = steady_ns();
  call(comm);
  return static_cast<double>(steady_ns() - start) * 1e-3;
}

double TimedCall::burst_us(Communicator& comm, Communicator& meet, int n,
                           const std::function<void()>& before) {
  if (before) before();
  meet.barrier(kSite);
  const std::int64_t start = steady_ns();
  for (int i = 0; i < n; ++i) call(comm);
  return static_cast<double>(steady_ns() - start) * 1e-3 / n;
}

SumCall::SumCall(Backend& backend, std::size_t bytes)
    : backend_(backend),
      rows_(rows_of(bytes)),
      cols_(std::max<std::int64_t>(1, static_cast<std::int64_t>(bytes / sizeof(float)) / rows_)),
      residual_(tensor()),
      own_(tensor()),
      zeros_(static_cast<std::size_t>(rows_ * cols_), 0.0F) {
  backend_.upload(zeros_, residual_);
  backend_.upload(zeros_, own_);
}

std::size_t SumCall::bytes() const { return zeros_.size() * sizeof(float); }

Tensor SumCall::place(Communicator& comm) {
  return comm.addend(kSite, rows_, cols_, DType::f32).value_or(own_);
}

// The addend as a matmul leaves it: just written.
void SumCall::prepare(Communicator& comm) { backend_.upload(zeros_, place(comm)); }

void SumCall::call(Communicator& comm) {
  comm.all_reduce(kSite, place(comm), {.residual = &residual_});
}

std::vector<float> SumCall::sum_of(Communicator& comm, Communicator& meet,
                                   const std::vector<float>& mine) {
  backend_.upload(mine, place(comm));
  meet.barrier(kSite);
  call(comm);
  std::vector<float> sums(mine.size());
  backend_.download(residual_, sums);
  backend_.upload(zeros_, residual_);
  backend_.upload(zeros_, own_);
  return sums;
}

std::uint64_t SumCall::n_wrong(Communicator& comm, Communicator& meet) {
  const int ranks = comm.size();
  std::vector<float> mine(zeros_.size(), static_cast<float>(comm.rank() + 1));
  const auto expected = static_cast<float>(ranks * (ranks + 1) / 2);
  std::uint64_t wrong = 0;
  for (const float sum : sum_of(comm, meet, mine)) wrong += sum != expected ? 1 : 0;
  const std::vector<float> pattern = pattern_of(comm.rank());
  for (std::size_t i = 0; i < mine.size(); ++i) mine[i] = pattern[i % kPattern];
  const std::vector<float> sums = sum_of(comm, meet, mine);
  const Reference reference(ranks);
  for (std::size_t i = 0; i < mine.size(); ++i) {
    const std::size_t k = i % kPattern;
    wrong += std::abs(sums[i] - reference.sum[k]) <= reference.allowed[k] ? 0 : 1;
  }
  return wrong;
}

std::unique_ptr<TimedCall> make_timed_call(Op op, Backend& backend, std::size_t bytes) {
  switch (op) {
    case Op::all_reduce:
      return std::make_unique<SumCall>(backend, bytes);
    case Op::broadcast:
      return std::make_unique<BroadcastCall>(bytes);
    case Op::gather:
      return std::make_unique<GatherCall>(bytes);
    case Op::barrier:
      return std::make_unique<BarrierCall>();
  }
  return std::make_unique<BarrierCall>();
}

void draw_order(std::vector<std::size_t>& order, std::uint32_t round) {
  std::iota(order.begin(), order.end(), std::size_t{0});
  for (std::size_t i = order.size(); i > 1; --i) {
    const auto words = philox4x32_10({static_cast<std::uint32_t>(i), round, 0, 0}, {});
    std::swap(order[i - 1], order[words[0] % i]);
  }
}

std::vector<double> slowest_of_ranks(Communicator& control, const std::vector<double>& mine) {
  const auto by_rank = gathered(control, mine);
  if (by_rank.empty()) return {};
  std::vector<double> slowest = by_rank[0];
  for (const auto& of_rank : by_rank) {
    for (std::size_t k = 0; k < slowest.size(); ++k) slowest[k] = std::max(slowest[k], of_rank[k]);
  }
  return slowest;
}

}  // namespace shardlm
