// Every call to CUDA and cuBLASLt that can fail does, one after another: each ends as one Error of
// the documented code, and nothing hangs or crashes on the way out.
#include <cuda_runtime_api.h>

#include <cstdlib>

#include "base/error.h"
#include "tests/gpu/backend/one_layer.h"
#include "tests/gpu/doubles/doubles.h"

namespace shardlm::cuda {
namespace {

/// Sets SHARDLM_FAKE_GPU_FAULT while it lives.
class Fault {
 public:
  explicit Fault(const std::string& text) { setenv("SHARDLM_FAKE_GPU_FAULT", text.c_str(), 1); }
  ~Fault() {
    unsetenv("SHARDLM_FAKE_GPU_FAULT");
    cudaDeviceSynchronize();  // work that is yet to fail
    doubles::take_async_error();
  }
  Fault(const Fault&) = delete;
  Fault& operator=(const Fault&) = delete;
};

/// The whole of a back end's life: weights, a prompt, tokens enqueued, recorded and replayed,
/// questions about logits.
void live(int device = 0) {
  CudaBackend backend({.device = device});
  OneLayer model(backend);
  run(backend, model, 2, 4);
  const std::vector<std::uint8_t> allowed(40, 1);
  std::vector<LogitReply> replies(1);
  backend.query_logits(upload(backend, random_matrix(1, 40, 1)), {0, allowed},
                       std::vector<LogitQuery>(1), replies);
  backend.describe();
  backend.memory();
  backend.synchronize();
}

/// How many of the first calls fail live(); polling calls have no last one.
int failures_of(const std::string& call, int error) {
  constexpr int kMost = 20;
  for (int nth = 1; nth <= kMost; ++nth) {
    const Fault fault(call + ":" + std::to_string(nth) + ":" + std::to_string(error));
    try {
      live();
      return nth - 1;
    } catch (const Error& e) {
      EXPECT_EQ(e.code(), ExitCode::resources) << call << " " << nth << ": " << e.what();
    }
  }
  return kMost;
}

class EveryCall : public testing::TestWithParam<std::string> {};

TEST_P(EveryCall, ThatFailsIsOneError) {
  const int error = GetParam().starts_with("cublas") ? 14 : 999;  // internal error, unknown error
  EXPECT_GT(failures_of(GetParam(), error), 0) << "the call is made";
}

INSTANTIATE_TEST_SUITE_P(
    Of, EveryCall,
    testing::Values("cudaSetDevice", "cudaMalloc", "cudaHostAlloc", "cudaStreamCreateWithFlags",
                    "cudaEventCreateWithFlags", "cudaMemcpyAsync", "cudaMemcpy2DAsync",
                    "cudaEventRecord", "cudaEventQuery", "cudaStreamQuery",
                    "cudaStreamBeginCapture", "cudaStreamEndCapture", "cudaGraphInstantiate",
                    "cudaGraphLaunch", "cudaLaunchKernelExC", "cudaDeviceGetAttribute",
                    "cudaGetDeviceProperties", "cudaMemGetInfo", "cublasLtCreate",
                    "cublasLtMatmulAlgoGetHeuristic", "cublasLtMatmul"),
    [](const auto& instance) { return instance.param; });

TEST(Faults, WorkThatFailsOnTheDeviceIsFoundByTheNextWait) {
  for (int nth = 1; nth < 60; nth += 7) {
    const Fault fault("work:" + std::to_string(nth) + ":700");  // an illegal address
    EXPECT_THROW(live(7), Error) << nth;  // a device that no other test uses: its memory is lost
  }
}

TEST(Faults, OutOfMemorySaysWhatForAndHowMuchIsFree) {
  setenv("SHARDLM_FAKE_GPU_BYTES", "50000000", 1);
  CudaBackend backend({});
  try {
    backend.make_kv_storage(12, 64, 1000, 32);
    ADD_FAILURE() << "196 MB fit into 50 MB";
  } catch (const Error& e) {
    EXPECT_EQ(e.code(), ExitCode::resources);
    const std::string text = e.what();
    for (const char* part :
         {"the KV cache", "196608000 bytes", "bytes free of 50000000", "--kv-dtype"}) {
      EXPECT_NE(text.find(part), std::string::npos) << part << " in " << text;
    }
  }
  unsetenv("SHARDLM_FAKE_GPU_BYTES");
}

TEST(Faults, AShapeThatCublasCannotMultiplyIsNamed) {
  CudaBackend backend({});
  const auto matrix = make_matrix(backend, HostMatrix(4, 6), false);
  const Tensor x = backend.allocate(2, 4), y = backend.allocate(2, 6);
  const Fault fault("cublasLtMatmulAlgoGetHeuristic:1:15");  // not supported
  try {
    backend.matmul(x, *matrix, nullptr, y);
    ADD_FAILURE() << "no algorithm";
  } catch (const Error& e) {
    EXPECT_NE(std::string(e.what()).find("[2, 4] x [4, 6]"), std::string::npos) << e.what();
  }
}

}  // namespace
}  // namespace shardlm::cuda
