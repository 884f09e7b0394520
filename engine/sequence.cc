#include "engine/sequence.h"

#include <algorithm>

namespace shardlm {
namespace {

constexpr std::int64_t kMostReserved = 1 << 16;

}  // namespace

std::string_view name(FinishReason reason) {
  switch (reason) {
    case FinishReason::stop:
      return "stop";
    case FinishReason::length:
      return "length";
    case FinishReason::eos:
      return "eos";
  }
  return "?";
}

Sequence::Sequence(Request request, std::uint64_t index, std::int64_t n_positions,
                   std::int64_t vocab_size)
    : request_(std::move(request)),
      index_(index),
      limit_(std::min(request_.max_tokens, n_positions - n_prompt() + 1)),
      sampler_(request_.sampling, index, request_.prompt, vocab_size),
      stream_(request_.stops) {
  // So that a step of decoding takes nothing from the heap; of a limit beyond all measure, a part.
  const auto expected =
      static_cast<std::size_t>(std::clamp<std::int64_t>(limit_, 0, kMostReserved));
  ids_.reserve(expected);
  samples_.reserve(expected);
}

std::int32_t Sequence::token(std::int64_t i) const {
  return i < n_prompt() ? request_.prompt[static_cast<std::size_t>(i)]
                        : ids_[static_cast<std::size_t>(i - n_prompt())];
}

std::string Sequence::accept(Sampled sampled, std::string_view bytes, bool is_eos) {
  const std::int32_t id = sampled.id;
  ids_.push_back(id);
  samples_.push_back(std::move(sampled));
  sampler_.accept(id);
  const bool ends = is_eos && !request_.ignore_eos;
  std::string shown = ends ? std::string() : stream_.push(bytes);
  if (ends) {
    finish_ = FinishReason::eos;
  } else if (stream_.stopped()) {
    finish_ = FinishReason::stop;
  } else if (static_cast<std::int64_t>(ids_.size()) >= limit_) {
    finish_ = FinishReason::length;
  }
  if (finish_) shown += stream_.finish();
  return shown;
}

}  // namespace shardlm
