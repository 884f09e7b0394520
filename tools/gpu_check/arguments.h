// The command line of gpu_check: a command, then "--name value" pairs.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace shardlm::gpu_check {

/// Error(usage) names what is wrong.
class Arguments {
 public:
  Arguments(int argc, char** argv);
  const std::string& command() const { return command_; }

  std::string text(const std::string& name, const std::string& otherwise);
  std::int64_t number(const std::string& name, std::int64_t otherwise);
  /// "a,b,c"
  std::vector<std::string> list(const std::string& name, const std::string& otherwise);
  /// "f32,bf16"
  std::vector<DType> dtypes(const std::string& name, const std::string& otherwise);
  /// "on,off"
  std::vector<bool> switches(const std::string& name, const std::string& otherwise);

  /// Fails if an argument was given that nobody has asked for.
  void finish() const;

 private:
  std::string command_;
  std::map<std::string, std::string> values_;
  std::map<std::string, bool> asked_;
};

/// "f32" and its like, as on the command line.
std::string dtype_text(DType dtype);

}  // namespace shardlm::gpu_check
