// The host's side of a question about logits: one copy down to the device, kernels, one copy back.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cuda/kernels/view.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/stream.h"

namespace shardlm::cuda {

class LogitQueries {
 public:
  explicit LogitQueries(const Stream& stream) : stream_(stream) {}
  /// Waits for the device: the one wait of a step.
  void run(const MatrixView& logits, const VocabShard& shard, std::span<const LogitQuery> queries,
           std::span<LogitReply> replies);

 private:
  const std::uint8_t* allowed_on_device(std::span<const std::uint8_t> allowed);
  void answer_on_host(const MatrixView& logits, std::size_t row, const VocabShard& shard,
                      const LogitQuery& query, LogitReply& reply);

  const Stream& stream_;
  PinnedBlock pinned_upload_, pinned_reply_;
  DeviceBlock upload_, reply_, scratch_, allowed_;
  std::vector<std::uint8_t> allowed_copy_;  ///< what `allowed_` holds
  std::vector<float> host_row_;
};

}  // namespace shardlm::cuda
