// What `shardlm bench --format jsonl` says of one rank: the part of a prediction that is measured.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <string>

#include "model/config.h"

namespace shardlm {

struct OneRankTiming {
  std::string test = {};  ///< "tg64"
  std::int64_t tokens = 0;
  double seconds = 0;                  ///< of a decoding step, or of a whole prefill: the median
  std::optional<double> other_s = {};  ///< of that, between passes; none: the file does not say
  int threads = 1;
  std::string where = {};  ///< "FILE:3"
};

/// What is looked for.
struct TimingWanted {
  const ModelConfig* config = nullptr;
  bool prefill = false;
  std::int64_t batch = 1;
  std::int64_t prompt = 128;  ///< of a prefill: exactly so many tokens
  std::string dtype = "f32";
};

/// The line of one rank with this model, type, batch and phase; of several the last. Error(usage)
/// if there is none, saying what the file has, and for lines that are no results.
OneRankTiming read_one_rank_timing(const std::filesystem::path& path, const TimingWanted& wanted);

}  // namespace shardlm
