// Stands in for io/tokenizer.h in scripts/gpu-check, which works with ids alone: no generation here
// is given a tokenizer, and the real one needs libraries that a GPU machine may lack.
#pragma once

#include <cstdint>
#include <string_view>

namespace shardlm {

class Tokenizer {
 public:
  std::string_view token_bytes(std::int32_t /*id*/) const { return {}; }
};

}  // namespace shardlm
