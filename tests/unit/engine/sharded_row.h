// A row of logits as several ranks hold it, and draws from it: what the tests of sampling share.
#pragma once

#include <cstdint>
#include <map>
#include <random>
#include <span>
#include <utility>
#include <vector>

#include "backend/cpu/query_logits.h"
#include "engine/sampler.h"
#include "engine/step_plan.h"
#include "parallel/partition.h"

namespace shardlm {

using Ids = std::vector<std::int32_t>;

inline std::int64_t vocabulary(const std::vector<float>& logits) {
  return static_cast<std::int64_t>(logits.size());
}

inline std::vector<float> random_logits(std::size_t n, std::uint32_t seed, double scale = 3) {
  std::mt19937 random(seed);
  std::normal_distribution<double> normal(0, scale);
  std::vector<float> logits(n);
  for (float& x : logits) x = static_cast<float>(normal(random));
  return logits;
}

/// One row of logits whose columns live on several ranks.
class ShardedRow {
 public:
  ShardedRow(std::vector<float> logits, int n_ranks)
      : allowed(logits.size(), 1),
        partition_(static_cast<std::int64_t>(logits.size()), n_ranks),
        logits_(std::move(logits)) {}

  std::vector<std::uint8_t> allowed;
  int asks = 0;  ///< of the last draw

  std::vector<LogitReply> ask(const LogitQuery& query) {
    std::vector<LogitReply> replies(static_cast<std::size_t>(partition_.size()));
    for (int rank = 0; rank < partition_.size(); ++rank) {
      const Range columns = partition_.of(rank);
      const auto begin = static_cast<std::size_t>(columns.begin);
      const auto width = static_cast<std::size_t>(columns.size());
      query_logits_cpu(Tensor::borrow(logits_.data() + begin, 1, columns.size()),
                       {static_cast<std::int32_t>(begin),
                        std::span<const std::uint8_t>(allowed).subspan(begin, width)},
                       std::span(&query, 1),
                       std::span(&replies[static_cast<std::size_t>(rank)], 1));
    }
    std::vector<std::byte> message;  // as they travel
    write_replies(replies, message);
    read_replies(message, replies);
    return replies;
  }

  Sampled draw(Sampler& sampler, std::uint64_t position) {
    for (asks = 1;; ++asks) {
      const auto sampled = sampler.choose(ask(sampler.query(position)));
      if (sampled) return *sampled;
    }
  }

 private:
  Partition partition_;
  std::vector<float> logits_;
};

inline Sampled draw_once(const std::vector<float>& logits, const SamplingParams& params,
                         std::uint64_t position = 0, int n_ranks = 1, const Ids& prompt = {}) {
  ShardedRow row(logits, n_ranks);
  Sampler sampler(params, 0, prompt, vocabulary(logits));
  return row.draw(sampler, position);
}

/// The ids that come out of many draws, and how often.
inline std::map<std::int32_t, int> histogram(const std::vector<float>& logits,
                                             const SamplingParams& params, int draws,
                                             const Ids& prompt = {}) {
  ShardedRow row(logits, 2);
  Sampler sampler(params, 0, prompt, vocabulary(logits));
  std::map<std::int32_t, int> counts;
  for (int i = 0; i < draws; ++i) ++counts[row.draw(sampler, static_cast<std::uint64_t>(i)).id];
  return counts;
}

}  // namespace shardlm
