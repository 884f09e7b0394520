// A progress line on a terminal, for work that takes longer than a second.
#pragma once

#include <cstdint>
#include <string>

namespace shardlm {

class Progress {
 public:
  /// Silent unless `wanted` and standard error is a terminal.
  Progress(bool wanted, std::string what);
  void update(std::int64_t done, std::int64_t total);
  void finish();  ///< clears the line

 private:
  bool active_;
  bool shown_ = false;
  std::string what_;
  double start_s_;
};

}  // namespace shardlm
