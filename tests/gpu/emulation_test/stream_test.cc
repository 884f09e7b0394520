// Streams, events, launches and graphs of the runtime's double.
#include <gmock/gmock.h>

#include <algorithm>
#include <atomic>
#include <set>
#include <thread>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

using ::testing::HasSubstr;

// Work that lasts until the test says so.
class Gate {
 public:
  void enter(cudaStream_t stream) {
    EXPECT_EQ(doubles::enqueue(stream, "gate",
                               [this] {
                                 while (!open_) std::this_thread::yield();
                               }),
              cudaSuccess);
  }
  void open() { open_ = true; }

 private:
  std::atomic<bool> open_{false};
};

TEST(Streams, RunBesideTheHost) {
  const TestStream stream;
  Gate gate;
  gate.enter(stream);
  EXPECT_EQ(cudaStreamQuery(stream), cudaErrorNotReady);
  EXPECT_EQ(cudaGetLastError(), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(stream.finish(), cudaSuccess);
  EXPECT_EQ(cudaStreamQuery(stream), cudaSuccess);
}

TEST(Streams, EventsOrderThem) {
  const TestStream first, second;
  const TestEvent written;
  Gate gate;
  const DeviceArray<int> value(std::vector<int>{0});
  gate.enter(first);
  ASSERT_EQ(cudaMemsetAsync(value.data(), 1, 4, first), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(written, first), cudaSuccess);
  ASSERT_EQ(cudaStreamWaitEvent(second, written, 0), cudaSuccess);
  ASSERT_EQ(cudaMemsetAsync(value.data(), 2, 4, second), cudaSuccess);
  EXPECT_EQ(cudaEventQuery(written), cudaErrorNotReady);
  EXPECT_EQ(cudaStreamQuery(second), cudaErrorNotReady);
  gate.open();
  EXPECT_EQ(cudaEventSynchronize(written), cudaSuccess);
  EXPECT_EQ(second.finish(), cudaSuccess);
  EXPECT_EQ(value.read()[0], 0x02020202);
}

TEST(Streams, AnEventThatWasNeverRecordedIsDone) {
  const TestStream stream;
  const TestEvent event;
  EXPECT_EQ(cudaEventQuery(event), cudaSuccess);
  EXPECT_EQ(cudaStreamWaitEvent(stream, event, 0), cudaSuccess);
  EXPECT_EQ(stream.finish(), cudaSuccess);
}

TEST(Streams, EventsMeasureTime) {
  const TestStream stream;
  const TestEvent begin(cudaEventDefault), end(cudaEventDefault), untimed;
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaEventRecord(begin, stream), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(begin), cudaSuccess);
  Gate gate;
  gate.enter(stream);
  ASSERT_EQ(cudaEventRecord(end, stream), cudaSuccess);
  ASSERT_EQ(cudaEventRecord(untimed, stream), cudaSuccess);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorNotReady);
  std::this_thread::sleep_for(std::chrono::milliseconds(2));  // what is measured, not a wait
  gate.open();
  ASSERT_EQ(stream.finish(), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GE(ms, 2.0F);
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, untimed), cudaErrorInvalidResourceHandle);
  cudaGetLastError();
}

TEST(Streams, DevicesKeepTheirOwn) {
  const TestStream stream;
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  const TestEvent event;
  EXPECT_EQ(cudaEventRecord(event, stream), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
}

void call_cuda(void* result) {
  int device = 0;
  *static_cast<cudaError_t*>(result) = cudaGetDevice(&device);
}

TEST(Streams, HostFunctionsMayNotCallCuda) {
  const TestStream stream;
  cudaError_t result = cudaSuccess;
  ASSERT_EQ(cudaLaunchHostFunc(stream, call_cuda, &result), cudaSuccess);
  ASSERT_EQ(stream.finish(), cudaSuccess);
  EXPECT_EQ(result, cudaErrorNotPermitted);
}

TEST(Streams, TheTraceNamesWorkInTheOrderOfIssue) {
  const TestStream stream;
  const DeviceArray<int> value(1);
  doubles::take_trace();
  int host = 0;
  cudaMemsetAsync(value.data(), 0, 4, stream);
  cudaMemcpyAsync(&host, value.data(), 4, cudaMemcpyDeviceToHost, stream);
  EXPECT_EQ(doubles::take_trace(), "memset;memcpy;");
}

__global__ void store_kernel(int* to, int value) { to[blockIdx.x] = value; }

__global__ void add_one_kernel(int* to) { *to += 1; }

TEST(Launches, RefuseWhatTheHardwareRefuses) {
  const TestStream stream;
  const DeviceArray<int> out(4);
  const auto launch = [&](dim3 grid, dim3 block, std::size_t shared) {
    emu::ensure_registered(store_kernel);
    cudaLaunchConfig_t config{};
    config.gridDim = grid, config.blockDim = block, config.dynamicSmemBytes = shared;
    config.stream = stream;
    int* to = out.data();
    int value = 7;
    void* arguments[] = {&to, &value};
    return cudaLaunchKernelExC(&config, reinterpret_cast<const void*>(store_kernel), arguments);
  };
  EXPECT_EQ(launch(dim3(1), dim3(1025), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1, 1, 65), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(0), dim3(1), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1, 65536), dim3(1), 0), cudaErrorInvalidConfiguration);
  EXPECT_EQ(launch(dim3(1), dim3(1), 48 * 1024 + 1), cudaErrorInvalidValue);
  const auto* function = reinterpret_cast<const void*>(store_kernel);
  const auto attribute = cudaFuncAttributeMaxDynamicSharedMemorySize;
  EXPECT_EQ(cudaFuncSetAttribute(function, attribute, 227 * 1024 + 1), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFuncSetAttribute(function, attribute, 60 * 1024), cudaSuccess);
  EXPECT_EQ(launch(dim3(1), dim3(1), 60 * 1024), cudaSuccess);
  EXPECT_EQ(launch(dim3(1), dim3(1), 60 * 1024 + 1), cudaErrorInvalidValue);
  int blocks = -1;
  EXPECT_EQ(cudaOccupancyMaxActiveBlocksPerMultiprocessor(&blocks, function, 256, 60 * 1024),
            cudaSuccess);
  EXPECT_EQ(blocks, 3);
  EXPECT_THROW(gpu::launch({dim3(1), dim3(2000), 0, stream}, store_kernel, out.data(), 1), Error);
  EXPECT_THROW(gpu::launch({dim3(1), dim3(1), 0, nullptr}, store_kernel, out.data(), 1), Error)
      << "the default stream";
  EXPECT_EQ(stream.finish(), cudaSuccess);
  cudaGetLastError();
}

TEST(Launches, AKernelThatFailsIsSticky) {
  const TestStream stream;
  const DeviceArray<int> out(1);
  gpu::launch(
      {dim3(1), dim3(1), 0, stream}, +[](int*) { __trap(); }, out.data());
  EXPECT_EQ(stream.finish(), cudaErrorLaunchFailure);
  EXPECT_THROW(gpu::launch({dim3(1), dim3(1), 0, stream}, add_one_kernel, out.data()), Error);
  EXPECT_EQ(cudaDeviceSynchronize(), cudaErrorLaunchFailure);
  EXPECT_THAT(doubles::take_async_error(), HasSubstr("kernel: __trap"));
}

}  // namespace
}  // namespace shardlm::bench_test
