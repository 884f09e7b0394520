// How fast this process can read memory: the limit of decoding.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "backend/cpu/mapped_memory.h"
#include "backend/cpu/thread_pool.h"

namespace shardlm {

/// Reads n floats once (n a multiple of 1024) and returns their sum.
float read_all(const float* data, std::int64_t n);

/// Memory as weights have it (huge pages asked for, each thread's part first touched by that
/// thread), to be read as fast as the threads can.
class ReadBandwidth {
 public:
  /// `bytes` is rounded up to whole pages of 4096.
  ReadBandwidth(std::size_t bytes, int threads);

  std::size_t bytes() const { return memory_.bytes(); }
  /// Reads all of it once, all threads at the same time; returns the seconds that it took.
  double pass_s();

 private:
  ThreadPool threads_;
  MappedMemory memory_;
  std::vector<float> sums_;  // a thread's each: what keeps the reads from being removed
};

}  // namespace shardlm
