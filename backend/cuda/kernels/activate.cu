#include "backend/cuda/kernels/activate.h"

#include <algorithm>

#include "backend/cuda/kernels/chunk.h"

namespace shardlm::cuda {
namespace {

constexpr int kThreads = 256;

/// Each x of the chunk by the formula of backend.h, in a form that keeps the relative accuracy of
/// the small values on the negative side.
template <Activation Kind, int N>
__device__ __forceinline__ void apply(float (&chunk)[N]) {
  constexpr float kTwoSqrt2OverPi = 1.5957691216F, kSqrtHalf = 0.70710678F;
#pragma unroll
  for (float& x : chunk) {
    if constexpr (Kind == Activation::gelu_tanh) {  // (1 + tanh(u)) / 2 = 1 / (1 + exp(-2u))
      const float u = fmaf(0.044715F * x * x, x, x);
      x = x / (1 + expf(-kTwoSqrt2OverPi * u));
    } else if constexpr (Kind == Activation::gelu_erf) {  // 1 + erf(u) = erfc(-u)
      x = 0.5F * x * erfcf(-kSqrtHalf * x);
    } else if constexpr (Kind == Activation::gelu_quick) {
      x = x / (1 + expf(-1.702F * x));
    } else if constexpr (Kind == Activation::relu) {
      x = x < 0 ? 0.0F : x;  // NaN stays NaN
    } else if constexpr (Kind == Activation::silu) {
      x = x / (1 + expf(-x));
    } else {
      x = tanhf(x);
    }
  }
}

template <int N>
__device__ __forceinline__ void apply(Activation kind, float (&chunk)[N]) {
  switch (kind) {
    case Activation::gelu_tanh:
      return apply<Activation::gelu_tanh>(chunk);
    case Activation::gelu_erf:
      return apply<Activation::gelu_erf>(chunk);
    case Activation::gelu_quick:
      return apply<Activation::gelu_quick>(chunk);
    case Activation::relu:
      return apply<Activation::relu>(chunk);
    case Activation::silu:
      return apply<Activation::silu>(chunk);
    case Activation::tanh:
      return apply<Activation::tanh>(chunk);
  }
}

struct Work {
  MatrixView x, bias;  // bias without data: none
  Activation kind;
  bool activate;
  bool vectors;
};

template <class T>
__global__ void activate_kernel(Work work) {
  constexpr int N = kChunk<T>;
  const MatrixView& x = work.x;
  const std::int64_t per_row = (x.cols + N - 1) / N;
  const std::int64_t step = std::int64_t{gridDim.x} * blockDim.x;
  for (std::int64_t chunk = std::int64_t{blockIdx.x} * blockDim.x + threadIdx.x;
       chunk < x.rows * per_row; chunk += step) {
    const std::int64_t i = chunk % per_row * N;
    T* at = static_cast<T*>(x.data) + chunk / per_row * x.stride + i;
    float values[N];
    load_chunk(at, x.cols - i, work.vectors, values);
    if (work.bias.data != nullptr) {
      float add[N];
      load_chunk(work.bias.dtype, work.bias.data, i, x.cols - i, work.vectors, add);
#pragma unroll
      for (int e = 0; e < N; ++e) values[e] += add[e];
    }
    if (work.activate) apply(work.kind, values);
    store_chunk(values, x.cols - i, work.vectors, at);
  }
}

void launch_work(cudaStream_t stream, const Work& work) {
  with_element(work.x.dtype, [&](auto element) {
    using T = decltype(element);
    const std::int64_t chunks = work.x.rows * ((work.x.cols + kChunk<T> - 1) / kChunk<T>);
    if (chunks == 0) return;
    const auto blocks =
        static_cast<unsigned>(std::min<std::int64_t>((chunks + kThreads - 1) / kThreads, 2048));
    gpu::launch({dim3(blocks), dim3(kThreads), 0, stream}, activate_kernel<T>, work);
  });
}

}  // namespace

void activate(cudaStream_t stream, Activation kind, const MatrixView& x) {
  launch_work(stream, {x, {}, kind, true, allows_vectors(x)});
}

void add_bias(cudaStream_t stream, const MatrixView& bias, std::optional<Activation> kind,
              const MatrixView& x) {
  check(bias.rows == 1 && bias.cols == x.cols, "add_bias: shape of the bias");
  with_element(bias.dtype, [](auto) {});  // refuses what the kernel cannot load
  launch_work(stream, {x, bias, kind.value_or(Activation::relu), kind.has_value(),
                       all_allow_vectors(x, bias)});
}

}  // namespace shardlm::cuda
