// Environment variables of a test, and the doubles' text of asynchronous failures.
#pragma once

#include <cstdlib>
#include <string>

#include "tests/gpu/doubles/doubles.h"

namespace shardlm::cuda {

/// Set while this lives; before threads are made and after they have ended.
class WithEnvironment {
 public:
  WithEnvironment(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~WithEnvironment() { unsetenv(name_); }
  WithEnvironment(const WithEnvironment&) = delete;
  WithEnvironment& operator=(const WithEnvironment&) = delete;

 private:
  const char* name_;
};

}  // namespace shardlm::cuda
