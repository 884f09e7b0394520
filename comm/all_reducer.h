// One all-reduce algorithm over one transport, as a communicator uses it.
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <span>

#include "backend/tensor.h"
#include "comm/algorithm.h"
#include "comm/call.h"

namespace shardlm {

class AllReducer {
 public:
  virtual ~AllReducer() = default;

  /// The largest message, bytes of the held elements: larger ones are cut before.
  virtual std::size_t most_bytes() const { return std::numeric_limits<std::size_t>::max(); }

  /// Memory [rows, cols] of this type where this rank may write its addend of `next`, the next
  /// call of the group; none: any tensor will do.
  virtual std::optional<Tensor> addend(const Call& /*next*/, std::int64_t /*rows*/,
                                       std::int64_t /*cols*/, DType /*dtype*/) {
    return std::nullopt;
  }

  /// This rank's addend [rows, cols] (float32, or i64: fixed point) of the same shape on all ranks.
  /// Returns tensors of that type and shape whose sum, in their order, is the sum over the ranks:
  /// all the addends, or one sum. They hold until release(), and no other call may come before it.
  virtual std::span<const Tensor> reduce(const Call& call, const Tensor& addend) = 0;
  /// This rank is done with what reduce() returned.
  virtual void release() {}

  /// True: what goes by before reduce() returns is waiting for the last rank to enter, next to
  /// nothing else.
  virtual bool only_waits() const { return false; }

  /// Bytes that this rank has sent so far (messages), or written for its peers (shared memory).
  virtual std::uint64_t sent_bytes() const = 0;
};

}  // namespace shardlm
