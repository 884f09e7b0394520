// One text in the making: its tokens, its place in the KV cache, its sampler.
#pragma once

#include <algorithm>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "engine/sampler.h"
#include "engine/sampling.h"
#include "engine/text_stream.h"

namespace shardlm {

enum class FinishReason { stop, length, eos };
std::string_view name(FinishReason reason);  ///< "stop", "length", "eos"

/// What is asked for one sequence. The prompt has at least one id and fits the context.
struct Request {
  std::vector<std::int32_t> prompt = {};
  SamplingParams sampling = {};
  std::int64_t max_tokens = 0;
  std::vector<std::string> stops = {};
  bool ignore_eos = false;
};

class Sequence {
 public:
  /// `index`: its number in the run, which keys its random draws.
  Sequence(Request request, std::uint64_t index, std::int64_t n_positions, std::int64_t vocab_size);

  std::int64_t n_prompt() const { return static_cast<std::int64_t>(request_.prompt.size()); }
  std::int64_t n_tokens() const { return n_prompt() + static_cast<std::int64_t>(ids_.size()); }
  /// Ids still to be generated at most: of max_tokens, and of the positions of the context. The
  /// last position still yields an id, which itself needs no position.
  std::int64_t limit() const { return limit_; }
  /// Tokens that must find room in the cache in the worst case.
  std::int64_t most_cached() const { return n_prompt() + std::max<std::int64_t>(limit_, 1) - 1; }
  /// Token i of prompt and continuation.
  std::int32_t token(std::int64_t i) const;

  const Request& request() const { return request_; }
  std::uint64_t index() const { return index_; }
  Sampler& sampler() { return sampler_; }
  const std::vector<std::int32_t>& ids() const { return ids_; }
  const std::vector<Sampled>& samples() const { return samples_; }
  const std::string& text() const { return stream_.text(); }
  std::optional<FinishReason> finish() const { return finish_; }

  /// Takes the next id: `bytes` is its text, `is_eos` says that it ends a text. Returns what may be
  /// shown now and sets finish() if this was the last.
  std::string accept(Sampled sampled, std::string_view bytes, bool is_eos);
  /// Ends a sequence that generates nothing (limit 0).
  void finish_empty() { finish_ = FinishReason::length; }

  // The scheduler's book-keeping.
  std::int64_t n_cached = 0;             ///< tokens in the KV cache
  std::vector<std::int32_t> blocks;      ///< its KV blocks, in order
  double first_id_s = 0, last_id_s = 0;  ///< when its first and its latest id came

 private:
  Request request_;
  std::uint64_t index_;
  std::int64_t limit_;
  Sampler sampler_;
  TextStream stream_;
  std::vector<std::int32_t> ids_;
  std::vector<Sampled> samples_;
  std::optional<FinishReason> finish_;
};

}  // namespace shardlm
