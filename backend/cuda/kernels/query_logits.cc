#include "backend/cuda/kernels/query_logits.h"

#include <algorithm>
#include <cstring>
#include <limits>

#include "backend/candidate_order.h"
#include "backend/cuda/kernels/logit_job.h"
#include "base/error.h"
#include "base/philox.h"

namespace shardlm::cuda {
namespace {

std::int32_t clipped(int n, std::int64_t width) {
  return static_cast<std::int32_t>(std::clamp<std::int64_t>(n, 0, width));
}

ListPath path_of(std::int32_t n, int list, bool noise) {
  if (n == 0) return ListPath::none;
  if (list == kCandidates && n == 1) return ListPath::single;
  if (n > kShortList || (list == kCandidates && noise)) return ListPath::long_list;
  return ListPath::short_list;
}

/// The penalties of ids in [begin, begin + width).
std::span<const LogitPenalty> of_shard(std::span<const LogitPenalty> penalties, std::int64_t begin,
                                       std::int64_t width) {
  const auto before = [](const LogitPenalty& penalty, std::int64_t id) { return penalty.id < id; };
  const auto first = std::lower_bound(penalties.begin(), penalties.end(), begin, before);
  return {first, std::lower_bound(first, penalties.end(), begin + width, before)};
}

double divisor_of(const LogitQuery& query) {
  return query.temperature > 0 ? query.temperature : 1.0;
}

std::int64_t parts_of(std::int64_t width) { return (width + kPartColumns - 1) / kPartColumns; }
std::int64_t tiles_of(std::int64_t width) { return (width + kTileColumns - 1) / kTileColumns; }

/// The lists of one query, placed behind those counted in `plan` so far, which then counts them.
void place_lists(const LogitQuery& query, LogitPlan& plan, DeviceLogitList (&lists)[2]) {
  for (const int list : {kCandidates, kTop}) {
    const std::int32_t n =
        clipped(list == kCandidates ? query.n_candidates : query.n_top, plan.width);
    const ListPath path = path_of(n, list, query.noise);
    lists[list] = {plan.n_entries, n, path};
    plan.n_entries += n;
    plan.n_short_lists += path == ListPath::short_list ? 1 : 0;
    plan.n_long_lists += path == ListPath::long_list ? 1 : 0;
  }
}

DeviceLogitQuery packed(const LogitQuery& query, LogitPlan& counted) {
  DeviceLogitQuery to{};
  place_lists(query, counted, to.lists);
  to.divisor = divisor_of(query);
  to.seed = query.seed;
  to.sequence = query.sequence;
  to.position = static_cast<std::uint32_t>(query.position);
  to.noise = query.noise ? 1 : 0;
  to.inverse = static_cast<float>(1 / to.divisor);
  to.inverse_is_float = to.divisor > 1e-30 && to.divisor < 1e30 ? 1 : 0;
  to.repetition = query.repetition;
  const std::int64_t target = std::int64_t{query.target} - counted.shard_begin;
  to.target = target >= 0 && target < counted.width ? static_cast<std::int32_t>(target) : -1;
  const auto own = of_shard(query.penalties, counted.shard_begin, counted.width);
  to.penalties_at = counted.n_penalties;
  to.n_penalties = static_cast<std::int32_t>(own.size());
  counted.n_penalties += to.n_penalties;
  to.same_weights = to.divisor == 1.0 && own.empty() ? 1 : 0;
  return to;
}

/// A plan that has counted nothing yet.
LogitPlan empty_plan(std::size_t rows, std::int32_t shard_begin, std::int64_t width) {
  LogitPlan plan;
  plan.rows = static_cast<std::int64_t>(rows);
  plan.width = width;
  plan.shard_begin = shard_begin;
  return plan;
}

/// Turns (id, raw) of the device into candidates of a query.
class CandidateMaker {
 public:
  explicit CandidateMaker(const LogitQuery& query)
      : query_(query),
        noise_{query.seed, query.sequence, static_cast<std::uint32_t>(query.position)} {}

  Candidate make(const DeviceLogitEntry& entry, bool ranked_by_raw) const {
    Candidate candidate{entry.id, entry.raw, penalised(entry), 0};
    if (ranked_by_raw) {
      candidate.score = entry.raw;
    } else if (query_.noise) {
      candidate.score = static_cast<double>(candidate.penalised) / divisor_of(query_) +
                        gumbel(uniform(noise_, entry.id));
    } else {
      candidate.score = candidate.penalised;
    }
    return candidate;
  }

 private:
  float penalised(const DeviceLogitEntry& entry) const {
    const auto own = of_shard(query_.penalties, entry.id, 1);
    if (own.empty()) return entry.raw;
    return penalise_logit(entry.raw, query_.repetition, own.back().repeated, own.back().subtract);
  }

  const LogitQuery& query_;
  NoiseKey noise_;
};

/// Entries [at, at + n) of the block that starts at `entries`, best first.
void read_list(const CandidateMaker& maker, const std::byte* entries, std::int64_t at,
               std::int32_t n, bool ranked_by_raw, std::vector<Candidate>& to) {
  to.clear();
  to.reserve(static_cast<std::size_t>(n));
  for (std::int64_t i = at; i < at + n; ++i) {
    DeviceLogitEntry entry;
    std::memcpy(&entry, entries + static_cast<std::size_t>(i) * sizeof entry, sizeof entry);
    to.push_back(maker.make(entry, ranked_by_raw));
  }
  std::sort(to.begin(), to.end(), ranks_before);
}

}  // namespace

LogitPlan plan_logit_queries(std::span<const LogitQuery> queries, std::int32_t shard_begin,
                             std::int64_t width) {
  constexpr std::int64_t kMostIds = std::numeric_limits<std::int32_t>::max() - kTileColumns;
  check(width >= 0 && shard_begin >= 0 && shard_begin <= kMostIds - width, "ids of 31 bits");
  check(queries.size() <= static_cast<std::size_t>(kMostIds), "rows of 31 bits");
  LogitPlan plan = empty_plan(queries.size(), shard_begin, width);
  for (const LogitQuery& query : queries) {
    if (query.noise) {
      check(query.temperature > 0, "noise needs a temperature above 0");
      check(query.position <= std::numeric_limits<std::uint32_t>::max(), "position below 2^32");
    }
    packed(query, plan);
  }
  const auto bytes = [](std::int64_t n, std::size_t each) {
    return static_cast<std::size_t>(n) * each;
  };
  plan.upload_bytes = bytes(plan.rows, sizeof(DeviceLogitQuery)) +
                      bytes(plan.n_short_lists + plan.n_long_lists, sizeof(LogitListRef)) +
                      bytes(plan.n_penalties, sizeof(DeviceLogitPenalty));
  plan.scratch_bytes =
      bytes(plan.rows * parts_of(width), sizeof(LogitPart)) +
      bytes(plan.n_short_lists * tiles_of(width) * kShortList, sizeof(std::uint64_t));
  plan.reply_bytes =
      bytes(plan.rows, sizeof(DeviceLogitHeader)) + bytes(plan.n_entries, sizeof(DeviceLogitEntry));
  return plan;
}

void pack_logit_queries(std::span<const LogitQuery> queries, const LogitPlan& plan,
                        std::span<std::byte> to) {
  check(static_cast<std::int64_t>(queries.size()) == plan.rows, "the plan's queries");
  check(to.size() == plan.upload_bytes, "a block as large as planned");
  LogitPlan counted = empty_plan(queries.size(), plan.shard_begin, plan.width);
  std::byte* query_to = to.data();
  std::byte* short_to = query_to + queries.size() * sizeof(DeviceLogitQuery);
  std::byte* long_to =
      short_to + static_cast<std::size_t>(plan.n_short_lists) * sizeof(LogitListRef);
  std::byte* penalty_to =
      long_to + static_cast<std::size_t>(plan.n_long_lists) * sizeof(LogitListRef);
  const auto put = [](std::byte*& at, const auto& value) {
    std::memcpy(at, &value, sizeof value);
    at += sizeof value;
  };
  for (std::size_t row = 0; row < queries.size(); ++row) {
    const DeviceLogitQuery one = packed(queries[row], counted);
    put(query_to, one);
    for (const int list : {kCandidates, kTop}) {
      const LogitListRef ref{static_cast<std::int32_t>(row), list};
      if (one.lists[list].path == ListPath::short_list) put(short_to, ref);
      if (one.lists[list].path == ListPath::long_list) put(long_to, ref);
    }
    const auto own = of_shard(queries[row].penalties, plan.shard_begin, plan.width);
    for (const LogitPenalty& penalty : own) {
      put(penalty_to, DeviceLogitPenalty{penalty.id - plan.shard_begin, penalty.repeated ? 1 : 0,
                                         penalty.subtract});
    }
  }
}

void unpack_logit_replies(std::span<const LogitQuery> queries, const LogitPlan& plan,
                          std::span<const std::byte> from, std::span<LogitReply> replies) {
  check(static_cast<std::int64_t>(queries.size()) == plan.rows, "the plan's queries");
  check(replies.size() == queries.size(), "one reply a query");
  check(from.size() == plan.reply_bytes, "a block as large as planned");
  LogitPlan counted = empty_plan(queries.size(), plan.shard_begin, plan.width);
  const std::byte* entries = from.data() + queries.size() * sizeof(DeviceLogitHeader);
  for (std::size_t i = 0; i < queries.size(); ++i) {
    DeviceLogitHeader header;
    std::memcpy(&header, from.data() + i * sizeof header, sizeof header);
    DeviceLogitList lists[2];
    place_lists(queries[i], counted, lists);
    LogitReply& reply = replies[i];
    reply.first_bad_id = header.first_bad_id;
    reply.raw = {header.raw_max, header.raw_sum};
    reply.tempered = {header.tempered_max, header.tempered_sum};
    reply.target.reset();
    if (header.has_target != 0) reply.target = header.target;
    const CandidateMaker maker(queries[i]);
    read_list(maker, entries, lists[kCandidates].entries_at, header.n[kCandidates], false,
              reply.candidates);
    read_list(maker, entries, lists[kTop].entries_at, header.n[kTop], true, reply.top);
  }
}

}  // namespace shardlm::cuda
