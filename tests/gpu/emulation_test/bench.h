// What the tests of the test bench share.
#pragma once

#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <functional>
#include <string>
#include <vector>

#include "backend/cuda/gpu.h"
#include "tests/gpu/doubles/doubles.h"

namespace shardlm::bench_test {

/// An environment variable for one scope; none of these tests runs threads that read it meanwhile.
class ScopedVariable {
 public:
  ScopedVariable(const char* name, const std::string& value) : name_(name) {
    setenv(name, value.c_str(), 1);
  }
  ~ScopedVariable() { unsetenv(name_); }
  ScopedVariable(const ScopedVariable&) = delete;
  ScopedVariable& operator=(const ScopedVariable&) = delete;

 private:
  const char* name_;
};

/// The order of threads for one scope.
class ScopedOrder {
 public:
  explicit ScopedOrder(emu::Order order, unsigned seed = 1) : old_(emu::options()) {
    emu::options().order = order;
    emu::options().seed = seed;
  }
  ~ScopedOrder() { emu::options() = old_; }
  ScopedOrder(const ScopedOrder&) = delete;
  ScopedOrder& operator=(const ScopedOrder&) = delete;

 private:
  emu::Options old_;
};

class TestStream {
 public:
  explicit TestStream(unsigned flags = cudaStreamNonBlocking) {
    EXPECT_EQ(cudaStreamCreateWithFlags(&stream_, flags), cudaSuccess);
  }
  ~TestStream() { cudaStreamDestroy(stream_); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  operator cudaStream_t() const { return stream_; }
  cudaError_t finish() const { return cudaStreamSynchronize(stream_); }

 private:
  cudaStream_t stream_ = nullptr;
};

class TestEvent {
 public:
  explicit TestEvent(unsigned flags = cudaEventDisableTiming) {
    EXPECT_EQ(cudaEventCreateWithFlags(&event_, flags), cudaSuccess);
  }
  ~TestEvent() { cudaEventDestroy(event_); }
  TestEvent(const TestEvent&) = delete;
  TestEvent& operator=(const TestEvent&) = delete;
  operator cudaEvent_t() const { return event_; }

 private:
  cudaEvent_t event_ = nullptr;
};

/// `count` elements of device memory.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    EXPECT_EQ(cudaMalloc(reinterpret_cast<void**>(&data_), count * sizeof(T)), cudaSuccess);
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    EXPECT_EQ(cudaMemcpy(data_, values.data(), count_ * sizeof(T), cudaMemcpyHostToDevice),
              cudaSuccess);
  }
  ~DeviceArray() { cudaFree(data_); }
  DeviceArray(const DeviceArray&) = delete;
  DeviceArray& operator=(const DeviceArray&) = delete;
  T* data() const { return data_; }
  std::vector<T> read() const {
    std::vector<T> values(count_);
    EXPECT_EQ(cudaMemcpy(values.data(), data_, count_ * sizeof(T), cudaMemcpyDeviceToHost),
              cudaSuccess);
    return values;
  }

 private:
  T* data_ = nullptr;
  std::size_t count_;
};

/// Runs one block of a kernel; the text of the failure that it met, "" if none.
template <class... P, class... A>
std::string run_block(unsigned threads, void (*kernel)(P...), A... args) {
  const TestStream stream;
  gpu::launch({dim3(1), dim3(threads), 0, stream}, kernel, args...);
  const cudaError_t error = stream.finish();
  const std::string text = doubles::take_async_error();
  EXPECT_EQ(error != cudaSuccess, !text.empty());
  cudaGetLastError();
  return text;
}

/// Runs part(0) .. part(n-1), each in a process of its own; what they returned, "" for success.
/// A process must not have called CUDA before it is forked.
std::vector<std::string> in_processes(int n, const std::function<std::string(int)>& part);

}  // namespace shardlm::bench_test
