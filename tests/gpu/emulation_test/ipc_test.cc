// CUDA IPC between real processes.
#include <unistd.h>

#include <cstring>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

constexpr std::size_t kBlock = std::size_t{2} << 20;

// One message between two processes.
class Mailbox {
 public:
  Mailbox() { EXPECT_EQ(pipe(ends_), 0); }
  ~Mailbox() {
    close(ends_[0]);
    close(ends_[1]);
  }
  Mailbox(const Mailbox&) = delete;
  Mailbox& operator=(const Mailbox&) = delete;
  template <class T>
  bool send(const T& value) {
    return write(ends_[1], &value, sizeof value) == sizeof value;
  }
  template <class T>
  bool receive(T& value) {
    return read(ends_[0], &value, sizeof value) == sizeof value;
  }

 private:
  int ends_[2] = {-1, -1};
};

std::string expect(bool ok, const char* what) { return ok ? "" : what; }

__global__ void wait_and_answer_kernel(std::uint32_t* shared) {
  while (gpu::ld_acquire_sys(shared) != 1U) gpu::spin_pause();
  shared[2] = shared[1] + 1;
  gpu::st_release_sys(shared + 3, 1U);
}

// Owns the memory: two kernels of two processes meet in it.
std::string owner(Mailbox& out, Mailbox& done) {
  DeviceArray<std::uint32_t> block(kBlock / 4);
  GPU_CHECK(cudaMemset(block.data(), 0, 64));
  cudaIpcMemHandle_t handle{};
  GPU_CHECK(cudaIpcGetMemHandle(&handle, block.data()));
  void* own = nullptr;
  if (cudaIpcOpenMemHandle(&own, handle, cudaIpcMemLazyEnablePeerAccess) == cudaSuccess)
    return "CUDA does not open a process's own handle";
  out.send(handle);
  const TestStream stream;
  gpu::launch({dim3(1), dim3(1), 0, stream}, wait_and_answer_kernel, block.data());
  GPU_CHECK(stream.finish());
  int ended = 0;
  return expect(done.receive(ended), "no word from the peer");
}

__global__ void ask_kernel(std::uint32_t* shared, std::uint32_t* answer) {
  shared[1] = 41;
  gpu::st_release_sys(shared, 1U);
  while (gpu::ld_acquire_sys(shared + 3) != 1U) gpu::spin_pause();
  *answer = shared[2];
}

std::string peer(Mailbox& in, Mailbox& done) {
  GPU_CHECK(cudaSetDevice(1));
  cudaIpcMemHandle_t handle{};
  if (!in.receive(handle)) return "no handle";
  void *shared = nullptr, *again = nullptr;
  GPU_CHECK(cudaIpcOpenMemHandle(&shared, handle, cudaIpcMemLazyEnablePeerAccess));
  GPU_CHECK(cudaIpcOpenMemHandle(&again, handle, cudaIpcMemLazyEnablePeerAccess));
  if (again != shared) return "a handle opened twice is one mapping";
  const DeviceArray<std::uint32_t> answer(1);
  const TestStream stream;
  gpu::launch({dim3(1), dim3(1), 0, stream}, ask_kernel, static_cast<std::uint32_t*>(shared),
              answer.data());
  GPU_CHECK(stream.finish());
  if (cudaFree(shared) == cudaSuccess) return "freed memory of another process";
  GPU_CHECK(cudaIpcCloseMemHandle(again));
  GPU_CHECK(cudaIpcCloseMemHandle(shared));
  if (cudaIpcCloseMemHandle(shared) == cudaSuccess) return "closed once too often";
  done.send(1);
  return expect(answer.read()[0] == 42, "the kernels did not meet");
}

TEST(Ipc, KernelsOfTwoProcessesShareMemory) {
  Mailbox handle, done;
  const auto texts = in_processes(
      2, [&](int rank) { return rank == 0 ? owner(handle, done) : peer(handle, done); });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

TEST(Ipc, NeedsPeerAccessBetweenDevices) {
  Mailbox handle, done;
  const ScopedVariable off("SHARDLM_FAKE_GPU_P2P", "0");
  const auto texts = in_processes(2, [&](int rank) -> std::string {
    cudaIpcMemHandle_t h{};
    if (rank == 0) {
      DeviceArray<char> block(kBlock);
      GPU_CHECK(cudaIpcGetMemHandle(&h, block.data()));
      handle.send(h);
      int ended = 0;
      return expect(done.receive(ended), "no word from the peer");
    }
    if (!handle.receive(h)) return "no handle";
    GPU_CHECK(cudaSetDevice(1));
    void* p = nullptr;
    const cudaError_t other = cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess);
    GPU_CHECK(cudaSetDevice(0));
    const cudaError_t same = cudaIpcOpenMemHandle(&p, h, cudaIpcMemLazyEnablePeerAccess);
    done.send(1);
    return expect(other == cudaErrorPeerAccessUnsupported && same == cudaSuccess, "wrong errors");
  });
  EXPECT_EQ(texts, (std::vector<std::string>{"", ""}));
}

TEST(Ipc, RefusesMemoryThatCudaWouldShareAsPartOfABlock) {
  const auto texts = in_processes(1, [](int) -> std::string {
    const DeviceArray<char> small(kBlock - 1), large(kBlock);
    cudaIpcMemHandle_t handle{};
    return expect(cudaIpcGetMemHandle(&handle, small.data()) == cudaErrorInvalidValue &&
                      cudaIpcGetMemHandle(&handle, large.data() + 1) == cudaErrorInvalidValue &&
                      cudaIpcGetMemHandle(&handle, large.data()) == cudaSuccess,
                  "wrong errors");
  });
  EXPECT_EQ(texts, (std::vector<std::string>{""}));
}

}  // namespace
}  // namespace shardlm::bench_test
