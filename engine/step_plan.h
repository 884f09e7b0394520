// What the coordinator tells every rank to do next, and what the ranks answer.
#pragma once

#include <cstdint>
#include <vector>

#include "backend/backend.h"
#include "engine/wire.h"

namespace shardlm {

enum class Command : std::uint8_t {
  step,  ///< run a forward pass, answer the queries
  ask,   ///< answer the queries about the rows of the last step again
  stop,  ///< leave the loop
};

/// One sequence's part of a step.
struct SequencePlan {
  std::int64_t start = 0;            ///< tokens already in the cache
  std::vector<std::int32_t> ids;     ///< new tokens
  std::vector<std::int32_t> blocks;  ///< all its KV blocks, in order
};

/// A question about the logits of one row of the step.
struct RowQuery {
  std::int32_t row = 0;                 ///< ascending over the queries of a step
  LogitQuery query;                     ///< penalties: see `penalties`
  std::vector<LogitPenalty> penalties;  ///< what query.penalties views
};

struct StepPlan {
  Command command = Command::step;
  std::int32_t exit_code = 0;  ///< with stop: what every rank returns
  std::vector<SequencePlan> sequences;
  std::vector<RowQuery> queries;
};

void write_plan(const StepPlan& plan, std::vector<std::byte>& message);
void read_plan(std::span<const std::byte> message, StepPlan& plan);

void write_replies(std::span<const LogitReply> replies, std::vector<std::byte>& message);
void read_replies(std::span<const std::byte> message, std::vector<LogitReply>& replies);

}  // namespace shardlm
