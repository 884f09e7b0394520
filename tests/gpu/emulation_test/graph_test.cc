// Capture and graphs of the runtime's double.
#include <functional>
#include <memory>
#include <set>
#include <thread>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

struct DestroyExec {
  void operator()(cudaGraphExec_t exec) const { cudaGraphExecDestroy(exec); }
};
using Exec = std::unique_ptr<CUgraphExec_st, DestroyExec>;

constexpr auto kThreadLocal = cudaStreamCaptureModeThreadLocal;

// What ending the capture of f's work says.
cudaError_t end_of_capture(cudaStream_t stream, cudaStreamCaptureMode mode,
                           const std::function<void()>& f) {
  EXPECT_EQ(cudaStreamBeginCapture(stream, mode), cudaSuccess);
  f();
  cudaGraph_t graph = nullptr;
  const cudaError_t error = cudaStreamEndCapture(stream, &graph);
  if (error == cudaSuccess) cudaGraphDestroy(graph);
  EXPECT_EQ(graph == nullptr, error != cudaSuccess);
  cudaGetLastError();
  return error;
}

Exec capture(cudaStream_t stream, const std::function<void()>& f) {
  EXPECT_EQ(cudaStreamBeginCapture(stream, kThreadLocal), cudaSuccess);
  f();
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphExec_t exec = nullptr;
  EXPECT_EQ(cudaGraphInstantiate(&exec, graph, 0), cudaSuccess);
  cudaGraphDestroy(graph);
  return Exec(exec);
}

TEST(Capture, RefusesWhatCannotBeRecorded) {
  const TestStream stream;
  const DeviceArray<int> value(1);
  const TestEvent event;
  void* p = nullptr;
  int host = 0;
  const auto invalid = [&](const std::function<cudaError_t()>& f) {
    return end_of_capture(stream, kThreadLocal, [&] {
             EXPECT_EQ(f(), cudaErrorStreamCaptureUnsupported);
           }) == cudaErrorStreamCaptureInvalidated;
  };
  EXPECT_TRUE(invalid([&] { return cudaMalloc(&p, 16); }));
  EXPECT_TRUE(invalid([&] { return cudaFree(value.data()); }));
  EXPECT_TRUE(invalid([&] { return cudaHostAlloc(&p, 16, 0); }));
  EXPECT_TRUE(invalid([&] { return cudaStreamSynchronize(stream); }));
  EXPECT_TRUE(invalid([&] { return cudaStreamQuery(stream); }));
  EXPECT_TRUE(invalid([&] { return cudaDeviceSynchronize(); }));
  EXPECT_TRUE(invalid([&] { return cudaEventQuery(event); }));
  EXPECT_TRUE(invalid([&] { return cudaMemcpy(value.data(), &host, 4, cudaMemcpyDefault); }));
  EXPECT_TRUE(invalid([&] {
    return cudaMemcpyAsync(value.data(), &host, 4, cudaMemcpyHostToDevice, stream);
  })) << "the graph would keep the address of pageable memory";
  EXPECT_EQ(end_of_capture(stream, kThreadLocal, [] {}), cudaSuccess);
}

TEST(Capture, OtherThreadsAreForbiddenInGlobalModeOnly) {
  const TestStream stream;
  const auto allocate_elsewhere = [&](cudaError_t expected) {
    std::thread([&] {
      void* p = nullptr;
      EXPECT_EQ(cudaMalloc(&p, 16), expected);
      EXPECT_EQ(cudaFree(p), expected);
    }).join();
  };
  EXPECT_EQ(end_of_capture(stream, kThreadLocal, [&] { allocate_elsewhere(cudaSuccess); }),
            cudaSuccess);
  EXPECT_EQ(end_of_capture(stream, cudaStreamCaptureModeGlobal,
                           [&] { allocate_elsewhere(cudaErrorStreamCaptureUnsupported); }),
            cudaErrorStreamCaptureInvalidated);
}

TEST(Capture, BranchesMustComeBack) {
  const TestStream stream, branch;
  const DeviceArray<int> value(2);
  const TestEvent forked, joined, outside;
  const auto fork_work = [&](bool join) {
    cudaEventRecord(forked, stream);
    cudaStreamWaitEvent(branch, forked, 0);
    cudaMemsetAsync(value.data(), 0, 4, branch);
    cudaEventRecord(joined, branch);
    if (join) cudaStreamWaitEvent(stream, joined, 0);
  };
  EXPECT_EQ(end_of_capture(stream, kThreadLocal, [&] { fork_work(true); }), cudaSuccess);
  EXPECT_EQ(end_of_capture(stream, kThreadLocal, [&] { fork_work(false); }),
            cudaErrorStreamCaptureUnjoined);
  ASSERT_EQ(cudaEventRecord(outside, branch), cudaSuccess);
  EXPECT_EQ(end_of_capture(stream, kThreadLocal,
                           [&] {
                             EXPECT_EQ(cudaStreamWaitEvent(stream, outside, 0),
                                       cudaErrorStreamCaptureIsolation);
                           }),
            cudaErrorStreamCaptureInvalidated);
  cudaGraph_t graph = nullptr;
  EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureUnmatched);
  cudaGetLastError();
}

TEST(Capture, EndsInTheThreadThatBeganIt) {
  const TestStream stream;
  ASSERT_EQ(cudaStreamBeginCapture(stream, kThreadLocal), cudaSuccess);
  cudaStreamCaptureStatus status{};
  ASSERT_EQ(cudaStreamIsCapturing(stream, &status), cudaSuccess);
  EXPECT_EQ(status, cudaStreamCaptureStatusActive);
  cudaGraph_t graph = nullptr;
  std::thread([&] {
    EXPECT_EQ(cudaStreamEndCapture(stream, &graph), cudaErrorStreamCaptureWrongThread);
  }).join();
  ASSERT_EQ(cudaStreamEndCapture(stream, &graph), cudaSuccess);
  cudaGraphDestroy(graph);
}

TEST(Capture, ACapturedEventCannotBeAskedFor) {
  const TestStream stream;
  const TestEvent event;
  EXPECT_EQ(end_of_capture(stream, cudaStreamCaptureModeRelaxed,
                           [&] {
                             cudaEventRecord(event, stream);
                             EXPECT_EQ(cudaEventQuery(event), cudaErrorCapturedEvent);
                           }),
            cudaErrorStreamCaptureInvalidated);
}

__global__ void set_kernel(int* to, int value) { *to = value; }
__global__ void double_kernel(int* to) { *to *= 2; }

TEST(Graph, KeepsTheArgumentsOfItsCapture) {
  const TestStream stream;
  const DeviceArray<int> value(std::vector<int>{0});
  int argument = 3;
  const Exec exec = capture(stream, [&] {
    gpu::launch({dim3(1), dim3(1), 0, stream}, set_kernel, value.data(), argument);
    gpu::launch({dim3(1), dim3(1), 0, stream}, double_kernel, value.data());
  });
  argument = 100;
  EXPECT_EQ(value.read()[0], 0) << "capturing runs nothing";
  ASSERT_EQ(cudaGraphLaunch(exec.get(), stream), cudaSuccess);
  ASSERT_EQ(cudaGraphLaunch(exec.get(), stream), cudaSuccess);
  ASSERT_EQ(stream.finish(), cudaSuccess);
  EXPECT_EQ(value.read()[0], 6);
}

TEST(Graph, ReadsPinnedMemoryAtEachLaunch) {
  const TestStream stream;
  const DeviceArray<int> value(1);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 4, cudaHostAllocDefault), cudaSuccess);
  const Exec exec = capture(
      stream, [&] { cudaMemcpyAsync(value.data(), pinned, 4, cudaMemcpyHostToDevice, stream); });
  for (const int x : {5, 6}) {
    *static_cast<int*>(pinned) = x;
    ASSERT_EQ(cudaGraphLaunch(exec.get(), stream), cudaSuccess);
    ASSERT_EQ(stream.finish(), cudaSuccess);
    EXPECT_EQ(value.read()[0], x);
  }
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

#if !defined(SHARDLM_EMU_TSAN)  // it is a race
TEST(Graph, NodesWithoutAnEdgeRunInAnyOrder) {
  const TestStream stream, branch;
  const DeviceArray<int> value(1);
  const TestEvent forked, joined;
  const Exec exec = capture(stream, [&] {
    cudaEventRecord(forked, stream);
    cudaStreamWaitEvent(branch, forked, 0);
    gpu::launch({dim3(1), dim3(1), 0, stream}, set_kernel, value.data(), 1);
    gpu::launch({dim3(1), dim3(1), 0, branch}, set_kernel, value.data(), 2);
    cudaEventRecord(joined, branch);
    cudaStreamWaitEvent(stream, joined, 0);
  });
  std::set<int> seen;
  for (int i = 0; i < 40; ++i) {
    ASSERT_EQ(cudaGraphLaunch(exec.get(), stream), cudaSuccess);
    ASSERT_EQ(stream.finish(), cudaSuccess);
    seen.insert(value.read()[0]);
  }
  EXPECT_EQ(seen, (std::set<int>{1, 2}));
}
#endif

TEST(Graph, RecordsEventsOfTheOutside) {
  const TestStream stream;
  const DeviceArray<int> value(1);
  const TestEvent begin(cudaEventDefault), end(cudaEventDefault);
  EXPECT_EQ(cudaEventRecordWithFlags(begin, stream, cudaEventRecordExternal), cudaErrorIllegalState)
      << "only a graph has an outside";
  const Exec exec = capture(stream, [&] {
    cudaEventRecordWithFlags(begin, stream, cudaEventRecordExternal);
    gpu::launch({dim3(1), dim3(1), 0, stream}, set_kernel, value.data(), 1);
    cudaEventRecordWithFlags(end, stream, cudaEventRecordExternal);
  });
  float ms = -1;
  EXPECT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaErrorInvalidResourceHandle);
  ASSERT_EQ(cudaGraphLaunch(exec.get(), stream), cudaSuccess);
  ASSERT_EQ(cudaEventSynchronize(end), cudaSuccess);
  ASSERT_EQ(cudaEventElapsedTime(&ms, begin, end), cudaSuccess);
  EXPECT_GE(ms, 0);
  ASSERT_EQ(stream.finish(), cudaSuccess);
  cudaGetLastError();
}

TEST(Graph, MayBeDestroyedWhileItRuns) {
  const TestStream stream;
  const DeviceArray<int> value(1);
  Exec exec = capture(stream, [&] {
    gpu::launch({dim3(1), dim3(1), 0, stream}, set_kernel, value.data(), 4);
  });
  ASSERT_EQ(cudaGraphLaunch(exec.get(), stream), cudaSuccess);
  exec.reset();
  ASSERT_EQ(stream.finish(), cudaSuccess);
  EXPECT_EQ(value.read()[0], 4);
}

}  // namespace
}  // namespace shardlm::bench_test
