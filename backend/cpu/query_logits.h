// Answers questions about a vocabulary shard's logits: the CPU side of Backend::query_logits.
#pragma once

#include <span>
#include <vector>

#include "backend/backend.h"
#include "backend/cpu/best_candidates.h"
#include "backend/cpu/thread_pool.h"

namespace shardlm {

/// A row is cut into pieces of fixed width, which the threads share: one parallel loop a call,
/// which reads each logit once. Sums are joined in the order of the pieces, so that threads and
/// batch change no bit of a reply. Memory is kept from call to call.
class LogitQueries {
 public:
  explicit LogitQueries(ThreadPool& threads) : threads_(threads) {}

  /// Row i of `logits` [queries, shard width] answers queries[i]; see LogitQuery and LogitReply.
  ///
  /// A reply depends on its own row and query alone; the scores of its candidates do not depend on
  /// where the shard begins or ends. If an allowed logit is not finite, `first_bad_id` names the
  /// first and the rest of the reply is empty. A penalised logit beyond the float32 range becomes
  /// the largest float32 of its sign. Candidate::score of `top` is the raw logit.
  /// A query with noise needs a temperature above 0 and a position below 2^32 (else a bug).
  void run(const Tensor& logits, const VocabShard& shard, std::span<const LogitQuery> queries,
           std::span<LogitReply> replies);

 private:
  /// What is summed over one piece of a row, relative to the piece's own maxima.
  struct PieceSums {
    std::int32_t first_bad_id = -1;
    float raw_max = 0, penalised_max = 0;
    double raw = 0, tempered = 0;
    std::array<double, kLogitBounds> before{};
  };
  /// The best ids of those pieces of a row that one worker had.
  struct Part {
    std::int64_t row = -1;
    BestCandidates candidates, top;
  };
  class PieceWork;
  class RowAnswer;

  ThreadPool& threads_;
  std::vector<PieceSums> sums_;  // [queries, pieces]
  // Of row and worker: at row + worker. Workers have rising ranges, so that no two use one place.
  std::vector<Part> parts_;
};

/// On the caller's thread alone.
void query_logits_cpu(const Tensor& logits, const VocabShard& shard,
                      std::span<const LogitQuery> queries, std::span<LogitReply> replies);

}  // namespace shardlm
