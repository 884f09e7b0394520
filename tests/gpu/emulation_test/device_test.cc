// Devices, memory and errors of the runtime's double.
#include <gmock/gmock.h>

#include <cmath>
#include <cstring>
#include <set>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

using ::testing::HasSubstr;

TEST(Devices, CountComesFromTheEnvironment) {
  int n = -1;
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaSuccess);
  EXPECT_EQ(n, 8);
  const ScopedVariable three("SHARDLM_FAKE_GPUS", "3");
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaSuccess);
  EXPECT_EQ(n, 3);
  EXPECT_EQ(cudaSetDevice(3), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInvalidDevice);
  EXPECT_EQ(cudaGetLastError(), cudaSuccess);
}

TEST(Devices, NoDeviceAndNoDriver) {
  int n = -1;
  {
    const ScopedVariable none("SHARDLM_FAKE_GPUS", "0");
    EXPECT_EQ(cudaGetDeviceCount(&n), cudaErrorNoDevice);
    EXPECT_EQ(n, 0);
  }
  const ScopedVariable none("SHARDLM_FAKE_GPUS", "driver");
  n = -1;
  EXPECT_EQ(cudaGetDeviceCount(&n), cudaErrorInsufficientDriver);
  EXPECT_EQ(n, -1) << "untouched, as by the real one";
  void* p = nullptr;
  EXPECT_EQ(cudaMalloc(&p, 16), cudaErrorInsufficientDriver);
  EXPECT_EQ(cudaGetLastError(), cudaErrorInsufficientDriver);
  int version = -1;
  EXPECT_EQ(cudaDriverGetVersion(&version), cudaSuccess);
  EXPECT_EQ(version, 0);
}

TEST(Devices, LookDifferent) {
  std::set<std::string> buses, ids;
  for (int d = 0; d < 8; ++d) {
    char bus[32];
    ASSERT_EQ(cudaDeviceGetPCIBusId(bus, sizeof bus, d), cudaSuccess);
    cudaDeviceProp properties{};
    ASSERT_EQ(cudaGetDeviceProperties(&properties, d), cudaSuccess);
    buses.insert(bus);
    ids.insert(std::string(properties.uuid.bytes, sizeof properties.uuid.bytes));
    char short_bus[8];
    EXPECT_EQ(cudaDeviceGetPCIBusId(short_bus, sizeof short_bus, d), cudaErrorInvalidValue);
  }
  EXPECT_EQ(buses.size(), 8U);
  EXPECT_EQ(ids.size(), 8U);
  EXPECT_TRUE(buses.contains("0000:0B:00.0"));
}

TEST(Devices, PeerAccessIsASwitch) {
  int can = -1;
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 0), cudaSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 1);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaSuccess);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(1, 0), cudaErrorPeerAccessAlreadyEnabled);
  const ScopedVariable off("SHARDLM_FAKE_GPU_P2P", "0");
  EXPECT_EQ(cudaDeviceCanAccessPeer(&can, 0, 1), cudaSuccess);
  EXPECT_EQ(can, 0);
  EXPECT_EQ(cudaDeviceEnablePeerAccess(2, 0), cudaErrorPeerAccessUnsupported);
}

TEST(DeviceMemory, StartsAsNaN) {
  const DeviceArray<float> memory(100);
  for (const float x : memory.read()) EXPECT_TRUE(std::isnan(x));
}

TEST(DeviceMemory, IsLimited) {
  const ScopedVariable limit("SHARDLM_FAKE_GPU_BYTES", "10000");
  std::size_t free = 0, total = 0;
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(total, 10000U);
  EXPECT_EQ(free, 10000U);
  void *a = nullptr, *b = nullptr;
  ASSERT_EQ(cudaMalloc(&a, 5000), cudaSuccess);
  ASSERT_EQ(cudaMemGetInfo(&free, &total), cudaSuccess);
  EXPECT_EQ(free, 10000U - 5120U);
  EXPECT_EQ(cudaMalloc(&b, 5000), cudaErrorMemoryAllocation);
  EXPECT_EQ(b, nullptr);
  ASSERT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&b, 5000), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaErrorInvalidValue) << "freed twice";
  // Another device has memory of its own.
  ASSERT_EQ(cudaMalloc(&a, 9000), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(1), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&b, 9000), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
  ASSERT_EQ(cudaSetDevice(0), cudaSuccess);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
}

TEST(DeviceMemory, PointersKnowWhatTheyAre) {
  const DeviceArray<char> device(64);
  void* pinned = nullptr;
  ASSERT_EQ(cudaHostAlloc(&pinned, 64, cudaHostAllocMapped), cudaSuccess);
  int pageable = 0;
  cudaPointerAttributes attributes{};
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, device.data() + 63), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeDevice);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, pinned), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeHost);
  ASSERT_EQ(cudaPointerGetAttributes(&attributes, &pageable), cudaSuccess);
  EXPECT_EQ(attributes.type, cudaMemoryTypeUnregistered);
  void* mapped = nullptr;
  EXPECT_EQ(cudaHostGetDevicePointer(&mapped, pinned, 0), cudaSuccess);
  EXPECT_EQ(cudaHostGetDevicePointer(&mapped, &pageable, 0), cudaErrorInvalidValue);
  EXPECT_EQ(cudaFreeHost(pinned), cudaSuccess);
}

TEST(Copies, RefuseTheWrongKindAndTheWrongLength) {
  const DeviceArray<char> device(64);
  const TestStream stream;
  char host[128] = {};
  const auto copy = [&](void* to, const void* from, std::size_t n, cudaMemcpyKind kind) {
    return cudaMemcpyAsync(to, from, n, kind, stream);
  };
  EXPECT_EQ(copy(device.data(), host, 64, cudaMemcpyHostToDevice), cudaSuccess);
  EXPECT_EQ(copy(device.data(), host, 65, cudaMemcpyHostToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(device.data(), host, 64, cudaMemcpyDeviceToHost), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host, device.data(), 64, cudaMemcpyDeviceToDevice), cudaErrorInvalidValue);
  EXPECT_EQ(copy(host, device.data(), 64, cudaMemcpyDefault), cudaSuccess);
  EXPECT_EQ(cudaMemcpyAsync(device.data(), host, 64, cudaMemcpyHostToDevice, nullptr),
            cudaErrorInvalidResourceHandle)
      << "the default stream";
  EXPECT_EQ(cudaMemsetAsync(host, 0, 4, stream), cudaErrorInvalidValue);
  EXPECT_EQ(stream.finish(), cudaSuccess);
}

TEST(Copies, PageableSourcesMayBeReusedAtOnce) {
  const DeviceArray<int> device(1);
  const TestStream stream;
  int value = 1;
  ASSERT_EQ(cudaMemcpyAsync(device.data(), &value, 4, cudaMemcpyHostToDevice, stream), cudaSuccess);
  value = 2;
  int back = 0;
  ASSERT_EQ(cudaMemcpyAsync(&back, device.data(), 4, cudaMemcpyDeviceToHost, stream), cudaSuccess);
  EXPECT_EQ(back, 1) << "a copy into pageable memory has arrived when the call returns";
}

TEST(Copies, Rows) {
  const DeviceArray<char> device(std::vector<char>(32, 'x'));
  const TestStream stream;
  const char host[] = "abcdefghi";  // rows of 3, of which 2 are copied, to rows of 10
  ASSERT_EQ(cudaMemcpy2DAsync(device.data(), 10, host, 3, 2, 3, cudaMemcpyHostToDevice, stream),
            cudaSuccess);
  ASSERT_EQ(cudaMemset2DAsync(device.data() + 5, 10, 'z', 1, 2, stream), cudaSuccess);
  ASSERT_EQ(stream.finish(), cudaSuccess);
  const std::vector<char> v = device.read();
  EXPECT_EQ(std::string(v.begin(), v.end()), "abxxxzxxxxdexxxzxxxxghxxxxxxxxxx");
  EXPECT_EQ(cudaMemcpy2DAsync(device.data(), 1, host, 3, 2, 3, cudaMemcpyHostToDevice, stream),
            cudaErrorInvalidValue)
      << "a pitch below the width";
  EXPECT_EQ(cudaMemcpy2DAsync(device.data(), 16, host, 3, 2, 3, cudaMemcpyHostToDevice, stream),
            cudaErrorInvalidValue)
      << "the last row ends outside";
}

TEST(Faults, TheNthCallFails) {
  const ScopedVariable fault("SHARDLM_FAKE_GPU_FAULT", "cudaMalloc:2:2,cudaMemGetInfo:1:999");
  void *a = nullptr, *b = nullptr;
  EXPECT_EQ(cudaMalloc(&a, 16), cudaSuccess);
  EXPECT_EQ(cudaMalloc(&b, 16), cudaErrorMemoryAllocation);
  EXPECT_EQ(cudaMalloc(&b, 16), cudaSuccess);
  std::size_t free = 0, total = 0;
  EXPECT_EQ(cudaMemGetInfo(&free, &total), cudaErrorUnknown);
  EXPECT_EQ(cudaFree(a), cudaSuccess);
  EXPECT_EQ(cudaFree(b), cudaSuccess);
}

TEST(Faults, WorkFailsAsynchronously) {
  const DeviceArray<char> device(64);
  const TestStream stream;
  {
    const ScopedVariable fault("SHARDLM_FAKE_GPU_FAULT", "work:2:700");
    EXPECT_EQ(cudaMemsetAsync(device.data(), 1, 64, stream), cudaSuccess);
    EXPECT_EQ(cudaMemsetAsync(device.data(), 2, 64, stream), cudaSuccess);
    EXPECT_EQ(stream.finish(), cudaErrorIllegalAddress);
  }
  EXPECT_EQ(cudaMemsetAsync(device.data(), 3, 64, stream), cudaErrorIllegalAddress) << "sticky";
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress);
  EXPECT_EQ(cudaGetLastError(), cudaErrorIllegalAddress) << "not cleared by asking";
  EXPECT_EQ(cudaSetDevice(0), cudaErrorIllegalAddress);
  EXPECT_THAT(doubles::take_async_error(), HasSubstr("memset: injected fault"));
  EXPECT_EQ(device.read()[0], 1) << "a failed device runs nothing more";
}

TEST(Faults, AVariableThatDoesNotParseIsRefused) {
  const ScopedVariable fault("SHARDLM_FAKE_GPU_FAULT", "cudaMalloc:x:2");
  void* p = nullptr;
  EXPECT_THROW(cudaMalloc(&p, 16), std::invalid_argument);
}

TEST(Errors, HaveNamesAndTexts) {
  EXPECT_STREQ(cudaGetErrorName(cudaErrorMemoryAllocation), "cudaErrorMemoryAllocation");
  EXPECT_STREQ(cudaGetErrorString(cudaErrorMemoryAllocation), "out of memory");
  EXPECT_STREQ(cudaGetErrorName(static_cast<cudaError_t>(12345)), "cudaError 12345");
}

}  // namespace
}  // namespace shardlm::bench_test
