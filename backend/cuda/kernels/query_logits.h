// Answers questions about a vocabulary shard's logits on the device: only candidates, sums and
// flags come to the host, never the logits. The back end's part of a call:
//
//   plan = plan_logit_queries(queries, shard)     sizes; host only
//   pack_logit_queries(queries, plan, pinned)     -> one copy to the device of upload_bytes
//   query_logits(stream, …)                       2 to 5 kernels, no wait, no allocation
//   one copy to the host of reply_bytes, a wait   -> unpack_logit_replies(queries, plan, …)
//
// The answers are those of the CPU back end (backend/cpu/query_logits.h): equal ids, ranks, raw and
// penalised logits and scores, sums within 1e-6 of their value. One thing may differ: among noisy
// scores that lie within two units in the last place of a double of each other, the device's
// logarithms may prefer another id than the host's.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>
#include <cstdint>
#include <span>

#include "backend/backend.h"
#include "backend/cuda/kernels/view.h"

namespace shardlm::cuda {

/// Sizes that follow from the questions. All blocks of memory are to be aligned to 16 bytes.
struct LogitPlan {
  std::int64_t rows = 0, width = 0;
  std::int32_t shard_begin = 0;
  std::int64_t n_penalties = 0;    ///< penalties of ids of this shard, over all rows
  std::int64_t n_entries = 0;      ///< candidates and top entries wanted, over all rows
  std::int64_t n_short_lists = 0;  ///< lists of up to 64 that tiles prepare
  std::int64_t n_long_lists = 0;   ///< lists that take a selection over the whole row
  std::size_t upload_bytes = 0;    ///< host to device: the questions
  std::size_t scratch_bytes = 0;   ///< device memory between the kernels; contents undefined
  std::size_t reply_bytes = 0;     ///< device to host: the answers
};

/// A query with noise needs a temperature above 0 and a position below 2^32 (else a bug).
LogitPlan plan_logit_queries(std::span<const LogitQuery> queries, std::int32_t shard_begin,
                             std::int64_t width);

/// Fills `to` (upload_bytes) with what query_logits() reads.
void pack_logit_queries(std::span<const LogitQuery> queries, const LogitPlan& plan,
                        std::span<std::byte> to);

/// Device memory of one call.
struct LogitMemory {
  const std::uint8_t* allowed = nullptr;  ///< [width] VocabShard::allowed
  const void* upload = nullptr;           ///< what pack_logit_queries() filled
  void* scratch = nullptr;
  void* reply = nullptr;
};

/// Enqueues the answers for `logits` [rows, width] f32 of the plan's queries. Reads 16 bytes at a
/// time where the rows and `allowed` are aligned for it. Every kernel's order of additions is
/// fixed: equal inputs give equal bits.
void query_logits(cudaStream_t stream, const MatrixView& logits, const LogitPlan& plan,
                  const LogitMemory& memory);

/// `from`: reply_bytes, back from the device. Scores and penalised logits are computed here, from
/// the raw logits and the queries, so that they do not depend on the device.
void unpack_logit_replies(std::span<const LogitQuery> queries, const LogitPlan& plan,
                          std::span<const std::byte> from, std::span<LogitReply> replies);

}  // namespace shardlm::cuda
