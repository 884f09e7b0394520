// The candidates of all ranks in one order, and how many of them top-k, top-p and min-p keep.
#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <span>
#include <vector>

#include "backend/backend.h"
#include "engine/sampling.h"

namespace shardlm {

/// The ranks' candidates, best first. A rank that sent as many as were asked for may have more, all
/// of them behind its last one: so the order is certain up to the first such last one.
struct Ranking {
  std::vector<Candidate> sorted;
  std::size_t known = 0;  ///< the first `known` are the best of the whole vocabulary, in order
  bool complete = false;  ///< no rank has more
};

/// `asked` candidates were asked of each rank. The order is that of their scores.
void merge_candidates(std::span<const LogitReply> by_rank, std::int64_t asked,
                      std::int64_t vocab_size, Ranking& ranking);

/// Sets of logits joined, in the order given (double precision).
LogSumExp join(std::span<const LogSumExp> parts);
/// The same of one part of every rank's reply.
LogSumExp join(std::span<const LogitReply> by_rank, LogSumExp LogitReply::*part);

/// How many of the ranking's first ids survive top-k, top-p and min-p, acting in this order on
/// softmax(penalised / temperature); at least one. None: the known part of the ranking is too short
/// to tell.
///
/// Top-p keeps the shortest prefix whose mass reaches p of the mass that top-k left. With top-k
/// that mass is summed in sorted order, the same at every rank count. Without, it is `tempered`,
/// the joined log-sum-exp, whose last bits depend on where shards begin: an id at which the mass
/// equals p within about 1e-15 may fall on either side at different rank counts.
std::optional<std::size_t> kept_count(const SamplingParams& params, const Ranking& ranking,
                                      const LogSumExp& tempered);

}  // namespace shardlm
