// A vocabulary shard with questions, answered by the kernels, by the CPU back end and by plain
// loops in double precision.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <limits>
#include <random>
#include <vector>

#include "backend/backend.h"
#include "backend/candidate_order.h"
#include "backend/cpu/query_logits.h"
#include "backend/cuda/kernels/query_logits.h"
#include "base/philox.h"
#include "tests/gpu/kernels/device.h"

namespace shardlm::cuda {

inline constexpr double kInfinity = std::numeric_limits<double>::infinity();
inline constexpr float kLargest = std::numeric_limits<float>::max();

/// Relative error of a sum of weights: three roundings of the exponent at their worst mixture (see
/// weight() in query_logits.cu), one ulp of expf(), three additions in float32.
inline constexpr double kSumError = 3.4 * 3 * 0x1p-24 + 0x1p-23 + 3 * 0x1p-24;  // 9.1e-7

struct LogitCase {
  std::int64_t width = 0;
  std::vector<LogitQuery> queries;  ///< one a row
  std::vector<float> logits = {};   ///< [rows, width]
  std::int32_t begin = 0;
  std::vector<std::uint8_t> allowed = std::vector<std::uint8_t>(static_cast<std::size_t>(width), 1);
  DeviceMatrix::Layout layout = {};

  std::int64_t rows() const { return static_cast<std::int64_t>(queries.size()); }
};

/// `rows` equal rows of normal numbers.
inline std::vector<float> normal_logits(std::int64_t rows, std::int64_t width, std::uint32_t seed,
                                        double scale = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> logits;
  for (std::int64_t i = 0; i < width; ++i) logits.push_back(static_cast<float>(normal(random)));
  for (std::int64_t i = width; i < rows * width; ++i) {
    logits.push_back(logits[static_cast<std::size_t>(i - width)]);
  }
  return logits;
}

/// As the back end does it: one block up, kernels, one block down. Flags stand unaligned if the
/// matrix does.
inline std::vector<LogitReply> ask_device(const TestStream& stream, const LogitCase& one) {
  const DeviceMatrix logits(DType::f32, one.rows(), one.width, one.logits, one.layout);
  std::vector<std::uint8_t> flags(static_cast<std::size_t>(one.layout.offset), 1);
  flags.insert(flags.end(), one.allowed.begin(), one.allowed.end());
  const DeviceArray<std::uint8_t> allowed(flags);
  const LogitPlan plan = plan_logit_queries(one.queries, one.begin, one.width);
  std::vector<std::byte> packed(plan.upload_bytes);
  pack_logit_queries(one.queries, plan, packed);
  const DeviceArray<std::byte> upload(packed), scratch(plan.scratch_bytes), reply(plan.reply_bytes);
  query_logits(stream, logits.view(), plan,
               {allowed.data() + one.layout.offset, upload.data(), scratch.data(), reply.data()});
  stream.finish();
  std::vector<LogitReply> replies(one.queries.size());
  unpack_logit_replies(one.queries, plan, reply.read(), replies);
  return replies;
}

inline std::vector<LogitReply> ask_cpu(const LogitCase& one) {
  std::vector<float> logits = one.logits;
  std::vector<LogitReply> replies(one.queries.size());
  query_logits_cpu(Tensor::borrow(logits.data(), one.rows(), one.width), {one.begin, one.allowed},
                   one.queries, replies);
  return replies;
}

inline float penalised_by_hand(float raw, std::int32_t id, const LogitQuery& query) {
  for (const LogitPenalty& penalty : query.penalties) {
    if (penalty.id != id) continue;
    float x = raw;
    if (penalty.repeated) x = x > 0 ? x / query.repetition : x * query.repetition;
    x -= penalty.subtract;
    return std::clamp(x, -kLargest, kLargest);
  }
  return raw;
}

/// The best n by the candidates' scores, ties by the lowest id.
inline std::vector<Candidate> best_by_hand(std::vector<Candidate> all, int n) {
  std::stable_sort(all.begin(), all.end(), [](const Candidate& a, const Candidate& b) {
    return a.score > b.score;  // ids ascend in `all`
  });
  all.resize(std::min(all.size(), static_cast<std::size_t>(n)));
  return all;
}

inline LogitReply answer_by_hand(const LogitCase& one, std::size_t row) {
  const LogitQuery& query = one.queries[row];
  const double divisor = query.temperature > 0 ? query.temperature : 1;
  const NoiseKey key{query.seed, query.sequence, static_cast<std::uint32_t>(query.position)};
  LogitReply reply;
  reply.raw = reply.tempered = {-kInfinity, 0};
  std::vector<Candidate> candidates, top;
  for (std::int64_t column = 0; column < one.width; ++column) {
    if (one.allowed[static_cast<std::size_t>(column)] == 0) continue;
    const std::int32_t id = one.begin + static_cast<std::int32_t>(column);
    const float raw =
        one.logits[row * static_cast<std::size_t>(one.width) + static_cast<std::size_t>(column)];
    if (!std::isfinite(raw)) {
      LogitReply bad;
      bad.first_bad_id = id;
      bad.raw = bad.tempered = {-kInfinity, 0};
      return bad;
    }
    const float penalised = penalised_by_hand(raw, id, query);
    const double score = query.noise ? penalised / divisor + gumbel(uniform(key, id)) : penalised;
    candidates.push_back({id, raw, penalised, score});
    top.push_back({id, raw, penalised, raw});
    if (query.target == id) reply.target = raw;
  }
  for (const Candidate& candidate : candidates) {
    reply.raw.max = std::max<double>(reply.raw.max, candidate.raw);
    reply.tempered.max = std::max(reply.tempered.max, candidate.penalised / divisor);
  }
  for (const Candidate& candidate : candidates) {
    reply.raw.sum += std::exp(candidate.raw - reply.raw.max);
    reply.tempered.sum += std::exp(candidate.penalised / divisor - reply.tempered.max);
  }
  reply.candidates = best_by_hand(candidates, query.n_candidates);
  reply.top = best_by_hand(top, query.n_top);
  return reply;
}

inline void expect_same_list(const std::vector<Candidate>& got,
                             const std::vector<Candidate>& want) {
  ASSERT_EQ(got.size(), want.size());
  for (std::size_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_EQ(got[i].id, want[i].id);
    ASSERT_EQ(got[i].raw, want[i].raw);
    ASSERT_EQ(got[i].penalised, want[i].penalised);
    ASSERT_EQ(got[i].score, want[i].score);  // of the host in all three
  }
}

inline void expect_same_sum(const LogSumExp& got, const LogSumExp& want) {
  EXPECT_EQ(got.max, want.max);
  const double error = std::abs(got.sum - want.sum);
  EXPECT_TRUE(error <= kSumError * want.sum) << got.sum << ", not " << want.sum;
}

inline void expect_same(const LogitReply& got, const LogitReply& want) {
  EXPECT_EQ(got.first_bad_id, want.first_bad_id);
  expect_same_sum(got.raw, want.raw);
  expect_same_sum(got.tempered, want.tempered);
  expect_same_list(got.candidates, want.candidates);
  expect_same_list(got.top, want.top);
  EXPECT_EQ(got.target, want.target);
}

/// The device's answers, which are those of the CPU back end and of the loops.
inline std::vector<LogitReply> ask_and_compare(const TestStream& stream, const LogitCase& one) {
  const std::vector<LogitReply> got = ask_device(stream, one);
  const std::vector<LogitReply> cpu = ask_cpu(one);
  for (std::size_t row = 0; row < got.size(); ++row) {
    SCOPED_TRACE("row " + std::to_string(row));
    expect_same(got[row], cpu[row]);
    expect_same(got[row], answer_by_hand(one, row));
  }
  return got;
}

}  // namespace shardlm::cuda
