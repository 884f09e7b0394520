#include <algorithm>
#include <array>
#include <cmath>
#include <limits>

#include "backend/candidate_order.h"
#include "base/philox.h"
#include "tools/gpu_check/kernel_checks.h"

namespace shardlm::gpu_check {
namespace {

constexpr std::array<std::int64_t, 4> kWidths = {1, 101, 5003, 50257};
constexpr std::int32_t kBegin = 1000;  // global id of column 0
constexpr float kLargest = std::numeric_limits<float>::max();
// Relative error of a sum of weights: 2 ulp of a float for an exponential and its correction, and
// the roundings of partial sums.
constexpr double kSumError = 2 * 0x1p-23 + 4 * 0x1p-24;

/// Questions of every kind, one a row.
class Questions {
 public:
  explicit Questions(std::int64_t width) {
    for (std::int64_t column = 0; column < width; column += 1 + width / 40) {
      penalties_.push_back({.id = kBegin + static_cast<std::int32_t>(column),
                            .repeated = column % 2 == 0,
                            .subtract = 0.25F});
    }
    queries_.push_back({});
    queries_.push_back({.repetition = 1.3F,
                        .penalties = penalties_,
                        .temperature = 0.7,
                        .n_candidates = 40,
                        .n_top = 7,
                        .target = kBegin + static_cast<std::int32_t>(width / 2)});
    queries_.push_back({.temperature = 1.1,
                        .n_candidates = 1,
                        .noise = true,
                        .seed = 42,
                        .sequence = 3,
                        .position = 17});
    queries_.push_back({.temperature = 0.9, .n_candidates = 100, .n_top = 70});
  }
  Questions(const Questions&) = delete;
  Questions& operator=(const Questions&) = delete;
  const std::vector<LogitQuery>& queries() const { return queries_; }

 private:
  std::vector<LogitPenalty> penalties_;
  std::vector<LogitQuery> queries_;
};

float penalised(float raw, std::int32_t id, const LogitQuery& query) {
  for (const LogitPenalty& penalty : query.penalties) {
    if (penalty.id != id) continue;
    float x = raw;
    if (penalty.repeated) x = x > 0 ? x / query.repetition : x * query.repetition;
    return std::clamp(x - penalty.subtract, -kLargest, kLargest);
  }
  return raw;
}

void keep_best(std::vector<Candidate>& all, int n) {
  std::sort(all.begin(), all.end(), ranks_before);
  all.resize(std::min(all.size(), static_cast<std::size_t>(n)));
}

LogitReply answer(std::span<const float> logits, std::span<const std::uint8_t> allowed,
                  const LogitQuery& query) {
  const double divisor = query.temperature > 0 ? query.temperature : 1;
  const NoiseKey key{query.seed, query.sequence, static_cast<std::uint32_t>(query.position)};
  LogitReply reply;
  reply.raw.max = reply.tempered.max = -std::numeric_limits<double>::infinity();
  for (std::size_t column = 0; column < logits.size(); ++column) {
    if (allowed[column] == 0) continue;
    const std::int32_t id = kBegin + static_cast<std::int32_t>(column);
    const float raw = logits[column];
    const float after = penalised(raw, id, query);
    const double score = query.noise ? after / divisor + gumbel(uniform(key, id)) : after;
    reply.candidates.push_back({id, raw, after, score});
    reply.top.push_back({id, raw, after, raw});
    if (query.target == id) reply.target = raw;
    reply.raw.max = std::max<double>(reply.raw.max, raw);
    reply.tempered.max = std::max(reply.tempered.max, after / divisor);
  }
  for (const Candidate& candidate : reply.candidates) {
    reply.raw.sum += std::exp(candidate.raw - reply.raw.max);
    reply.tempered.sum += std::exp(candidate.penalised / divisor - reply.tempered.max);
  }
  keep_best(reply.candidates, query.n_candidates);
  keep_best(reply.top, query.n_top);
  return reply;
}

bool same_list(const std::vector<Candidate>& got, const std::vector<Candidate>& want) {
  return std::equal(got.begin(), got.end(), want.begin(), want.end(),
                    [](const Candidate& a, const Candidate& b) {
                      return a.id == b.id && a.raw == b.raw && a.penalised == b.penalised;
                    });
}

bool same_sum(const LogSumExp& got, const LogSumExp& want) {
  return got.max == want.max && std::abs(got.sum - want.sum) <= kSumError * want.sum;
}

void check_width(const KernelCheck& check, std::int64_t width) {
  const Questions questions(width);
  const auto rows = std::ssize(questions.queries());
  const auto n = static_cast<std::size_t>(width);
  auto logits = random_values(rows * width, 41, DType::f32, 8);
  std::vector<std::uint8_t> allowed(n, 1);
  for (std::size_t column = 3; column < n; column += 11) allowed[column] = 0;
  const VocabShard shard{.begin = kBegin, .allowed = allowed};
  const std::string what = "query_logits of width " + std::to_string(width);
  std::vector<LogitReply> replies(questions.queries().size());
  check.backend.query_logits(put_floats(check.backend, rows, width, logits), shard,
                             questions.queries(), replies);
  for (std::size_t row = 0; row < replies.size(); ++row) {
    const LogitReply& got = replies[row];
    const LogitReply want =
        answer(std::span(logits).subspan(row * n, n), allowed, questions.queries()[row]);
    const std::string where = what + ", row " + std::to_string(row);
    check.findings.require(got.first_bad_id == -1, where, "a bad id");
    check.findings.require(same_list(got.candidates, want.candidates), where, "other candidates");
    check.findings.require(same_list(got.top, want.top), where, "other top ids");
    check.findings.require(same_sum(got.raw, want.raw), where, "another sum");
    check.findings.require(same_sum(got.tempered, want.tempered), where, "another tempered sum");
    check.findings.require(got.target == want.target, where, "another target");
  }
  // The first allowed logit that is not finite is named.
  logits[n - 1] = std::numeric_limits<float>::quiet_NaN();
  const bool counts = allowed[n - 1] != 0;
  check.backend.query_logits(put_floats(check.backend, rows, width, logits), shard,
                             questions.queries(), replies);
  check.findings.require(
      replies.front().first_bad_id == (counts ? kBegin + static_cast<std::int32_t>(n) - 1 : -1),
      what, "a NaN is not reported");
}

}  // namespace

void check_logits(const KernelCheck& check) {
  if (check.dtype() != DType::f32) return;  // logits are float32 in every precision
  for (const std::int64_t width : kWidths) check_width(check, width);
}

}  // namespace shardlm::gpu_check
