// The first exception of several threads.
#pragma once

#include <exception>
#include <mutex>
#include <utility>

namespace shardlm {

class FirstError {
 public:
  void record(std::exception_ptr error) {
    const std::lock_guard lock(mutex_);
    if (!error_) error_ = std::move(error);
  }
  void rethrow() const {
    if (error_) std::rethrow_exception(error_);
  }

 private:
  std::mutex mutex_;
  std::exception_ptr error_;
};

}  // namespace shardlm
