// Timing single collectives on all ranks: what `tune` and `bench coll` share.
#pragma once

#include <cstdint>
#include <cstring>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "comm/call.h"
#include "comm/communicator.h"

namespace shardlm {

/// A collective of one size, to be called again and again on all ranks together.
class TimedCall {
 public:
  virtual ~TimedCall() = default;
  virtual std::size_t bytes() const = 0;  ///< of a rank's message

  /// Microseconds of this rank's call, after `before` and a barrier over `meet`. Of an all-reduce
  /// an addend that was given out must be the next that is reduced: so `meet` is another
  /// communicator.
  double call_us(Communicator& comm, Communicator& meet, const std::function<void()>& before = {});
  /// The mean of `n` calls, one right after the other, after one barrier.
  double burst_us(Communicator& comm, Communicator& meet, int n,
                  const std::function<void()>& before = {});

  /// Elements that are wrong on this rank: of whole numbers, which are exact in any order, and of
  /// random values, whose sum may differ from the one in double precision by P roundings.
  virtual std::uint64_t n_wrong(Communicator& comm, Communicator& meet) = 0;

 protected:
  virtual void prepare(Communicator& /*comm*/) {}
  virtual void call(Communicator& comm) = 0;
};

/// An all-reduce as a model makes it: the addend is where the communicator wants it, the sum is
/// added to a residual stream.
class SumCall final : public TimedCall {
 public:
  SumCall(Backend& backend, std::size_t bytes);

  std::size_t bytes() const override;  ///< whole rows of floats
  std::uint64_t n_wrong(Communicator& comm, Communicator& meet) override;

 private:
  void prepare(Communicator& comm) override;
  void call(Communicator& comm) override;
  Tensor tensor() { return backend_.allocate(rows_, cols_); }
  Tensor place(Communicator& comm);
  std::vector<float> sum_of(Communicator& comm, Communicator& meet, const std::vector<float>& mine);

  Backend& backend_;
  std::int64_t rows_, cols_;
  Tensor residual_, own_;
  std::vector<float> zeros_;
};

/// Of any operation; bytes of a barrier are 0.
std::unique_ptr<TimedCall> make_timed_call(Op op, Backend& backend, std::size_t bytes);

/// An order of its elements, the same on all ranks: drawn from the round's number alone.
void draw_order(std::vector<std::size_t>& order, std::uint32_t round);

/// On rank 0, rank by rank; elsewhere empty. Collective.
template <class T>
std::vector<std::vector<T>> gathered(Communicator& control, const std::vector<T>& mine) {
  std::vector<std::vector<std::byte>> all;
  control.gather({SiteKind::load}, std::as_bytes(std::span(mine)), all, 0);
  std::vector<std::vector<T>> values;
  for (const auto& bytes : all) {
    values.emplace_back(bytes.size() / sizeof(T));
    if (!bytes.empty()) std::memcpy(values.back().data(), bytes.data(), bytes.size());
  }
  return values;
}

/// Of each call the time of the slowest rank, at rank 0; elsewhere empty. Collective.
std::vector<double> slowest_of_ranks(Communicator& control, const std::vector<double>& mine);

}  // namespace shardlm
