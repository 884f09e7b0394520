#include "engine/step_plan.h"

namespace shardlm {
namespace {

// A LogitQuery without its view of penalties, which travel beside it.
void write_query(ByteWriter& to, const RowQuery& row) {
  LogitQuery bare = row.query;
  bare.penalties = {};
  to.put(row.row);
  to.put(bare);
  to.put_all(row.penalties);
}

void read_query(ByteReader& from, RowQuery& row) {
  row.row = from.get<std::int32_t>();
  row.query = from.get<LogitQuery>();
  from.get_all(row.penalties);
  row.query.penalties = row.penalties;
}

void write_reply(ByteWriter& to, const LogitReply& reply) {
  to.put(reply.first_bad_id);
  to.put(reply.raw);
  to.put(reply.tempered);
  to.put(reply.before);
  to.put_all(reply.candidates);
  to.put_all(reply.top);
  to.put(reply.target.has_value());
  to.put(reply.target.value_or(0));
}

void read_reply(ByteReader& from, LogitReply& reply) {
  reply.first_bad_id = from.get<std::int32_t>();
  reply.raw = from.get<LogSumExp>();
  reply.tempered = from.get<LogSumExp>();
  reply.before = from.get<std::array<double, kLogitBounds>>();
  from.get_all(reply.candidates);
  from.get_all(reply.top);
  const bool has_target = from.get<bool>();
  const float target = from.get<float>();
  reply.target = has_target ? std::optional(target) : std::nullopt;
}

}  // namespace

void write_plan(const StepPlan& plan, std::vector<std::byte>& message) {
  ByteWriter to(message);
  to.put(plan.command);
  to.put(plan.exit_code);
  to.put<std::uint64_t>(plan.sequences.size());
  for (const SequencePlan& s : plan.sequences) {
    to.put(s.start);
    to.put_all(s.ids);
    to.put_all(s.blocks);
  }
  to.put<std::uint64_t>(plan.queries.size());
  for (const RowQuery& q : plan.queries) write_query(to, q);
}

void read_plan(std::span<const std::byte> message, StepPlan& plan) {
  ByteReader from(message);
  plan.command = from.get<Command>();
  plan.exit_code = from.get<std::int32_t>();
  plan.sequences.resize(from.get<std::uint64_t>());
  for (SequencePlan& s : plan.sequences) {
    s.start = from.get<std::int64_t>();
    from.get_all(s.ids);
    from.get_all(s.blocks);
  }
  plan.queries.resize(from.get<std::uint64_t>());
  for (RowQuery& q : plan.queries) read_query(from, q);
  check(from.empty(), "bytes left over in a step plan");
}

void write_replies(std::span<const LogitReply> replies, std::vector<std::byte>& message) {
  ByteWriter to(message);
  to.put<std::uint64_t>(replies.size());
  for (const LogitReply& r : replies) write_reply(to, r);
}

void read_replies(std::span<const std::byte> message, std::vector<LogitReply>& replies) {
  ByteReader from(message);
  replies.resize(from.get<std::uint64_t>());
  for (LogitReply& r : replies) read_reply(from, r);
  check(from.empty(), "bytes left over in replies");
}

}  // namespace shardlm
