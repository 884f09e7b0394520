// Answers questions about a vocabulary shard's logits: the CPU side of Backend::query_logits.
#pragma once

#include <span>

#include "backend/backend.h"

namespace shardlm {

/// Row i of `logits` [queries, shard width] answers queries[i]; see LogitQuery and LogitReply.
///
/// A reply depends on its own row and query alone; the scores of its candidates do not depend on
/// where the shard begins or ends. If an allowed logit is not finite, `first_bad_id` names the
/// first and the rest of the reply is empty. A penalised logit beyond the float32 range becomes
/// the largest float32 of its sign. Candidate::score of `top` is the raw logit.
/// A query with noise needs a temperature above 0 and a position below 2^32 (else a bug).
void query_logits_cpu(const Tensor& logits, const VocabShard& shard,
                      std::span<const LogitQuery> queries, std::span<LogitReply> replies);

}  // namespace shardlm
