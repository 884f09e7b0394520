#include "backend/cuda/check.h"

#include <fmt/format.h>

#include "base/error.h"

namespace shardlm::cuda {

void check_cuda(cudaError_t code, const char* doing) {
  if (code == cudaSuccess) return;
  cudaGetLastError();  // not to be found again by the next call
  fail(ExitCode::resources,
       {.what = fmt::format("the GPU failed while {}", doing),
        .found = fmt::format("{} ({})", cudaGetErrorString(code), cudaGetErrorName(code)),
        .remedy = code == cudaErrorMemoryAllocation
                      ? "use more ranks, a smaller --dtype or --kv-dtype, or shorter texts"
                      : ""});
}

}  // namespace shardlm::cuda
