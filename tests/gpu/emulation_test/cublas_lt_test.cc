// cuBLASLt's double against double-precision loops, and its rules.
#include <cublasLt.h>

#include <cmath>
#include <random>

#include "tests/gpu/emulation_test/bench.h"

namespace shardlm::bench_test {
namespace {

struct Shape {
  std::size_t m = 5, n = 3, k = 7, pad_a = 0, pad_b = 0, pad_d = 0;
  bool ta = false, tb = false;
};

float to_float(float x) { return x; }
float to_float(__half x) { return __half2float(x); }
float to_float(__nv_bfloat16 x) { return __bfloat162float(x); }
void from_float(float x, float& to) { to = x; }
void from_float(float x, __half& to) { to = __float2half_rn(x); }
void from_float(float x, __nv_bfloat16& to) { to = __float2bfloat16_rn(x); }
template <class T>
constexpr cudaDataType kType = CUDA_R_32F;
template <>
constexpr cudaDataType kType<__half> = CUDA_R_16F;
template <>
constexpr cudaDataType kType<__nv_bfloat16> = CUDA_R_16BF;
// Half of what one rounding to T may be off, relative.
template <class T>
constexpr double kEpsilon = 0x1p-24;
template <>
constexpr double kEpsilon<__half> = 0x1p-11;
template <>
constexpr double kEpsilon<__nv_bfloat16> = 0x1p-8;

template <class T>
std::vector<T> random_values(std::size_t n, unsigned seed) {
  std::mt19937 random(seed);
  std::uniform_real_distribution<float> in(-1, 1);
  std::vector<T> values(n);
  for (T& v : values) from_float(in(random), v);
  return values;
}

/// All that one product needs, with cuBLASLt's own descriptors.
template <class T, class U>
class Product {
 public:
  Product(const Shape& s, cublasLtEpilogue_t epilogue) : shape_(s), epilogue_(epilogue) {
    lda_ = (s.ta ? s.k : s.m) + s.pad_a, ldb_ = (s.tb ? s.n : s.k) + s.pad_b, ldd_ = s.m + s.pad_d;
    host_a = random_values<T>(lda_ * (s.ta ? s.m : s.k), 1);
    host_b = random_values<T>(ldb_ * (s.tb ? s.k : s.n), 2);
    host_bias = random_values<U>(s.m, 3);
    cublasLtCreate(&lt_);
    cublasLtMatmulDescCreate(&desc, CUBLAS_COMPUTE_32F, CUDA_R_32F);
    set_op(CUBLASLT_MATMUL_DESC_TRANSA, s.ta);
    set_op(CUBLASLT_MATMUL_DESC_TRANSB, s.tb);
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_EPILOGUE, &epilogue, sizeof epilogue);
    make(&layout_a, kType<T>, s.ta ? s.k : s.m, s.ta ? s.m : s.k, lda_);
    make(&layout_b, kType<T>, s.tb ? s.n : s.k, s.tb ? s.k : s.n, ldb_);
    make(&layout_d, kType<U>, s.m, s.n, ldd_);
    cublasLtMatmulPreferenceCreate(&preference);
  }
  ~Product() {
    cublasLtMatmulPreferenceDestroy(preference);
    for (auto* layout : {layout_a, layout_b, layout_d}) cublasLtMatrixLayoutDestroy(layout);
    cublasLtMatmulDescDestroy(desc);
    cublasLtDestroy(lt_);
  }
  Product(const Product&) = delete;
  Product& operator=(const Product&) = delete;

  void promise(cublasLtMatmulPreferenceAttributes_t what, std::uint32_t bytes) {
    EXPECT_EQ(cublasLtMatmulPreferenceSetAttribute(preference, what, &bytes, sizeof bytes),
              CUBLAS_STATUS_SUCCESS);
  }
  void allow_workspace(std::uint64_t bytes) {
    cublasLtMatmulPreferenceSetAttribute(preference, CUBLASLT_MATMUL_PREF_MAX_WORKSPACE_BYTES,
                                         &bytes, sizeof bytes);
  }
  cublasStatus_t find(cublasLtMatmulHeuristicResult_t& result) const {
    int found = 0;
    return cublasLtMatmulAlgoGetHeuristic(lt_, desc, layout_a, layout_b, layout_d, layout_d,
                                          preference, 1, &result, &found);
  }
  cublasStatus_t run(const T* a, const T* b, U* d, float alpha, float beta, cudaStream_t stream,
                     void* workspace = nullptr, std::size_t bytes = 0) const {
    cublasLtMatmulHeuristicResult_t result{};
    if (const cublasStatus_t status = find(result); status != CUBLAS_STATUS_SUCCESS) return status;
    return cublasLtMatmul(lt_, desc, &alpha, a, layout_a, b, layout_b, &beta, d, layout_d, d,
                          layout_d, &result.algo, workspace, bytes, stream);
  }

  /// Against the plain loop. The result is overwritten (beta 0) or added to 2 (beta 1).
  void expect_right(float beta) {
    const DeviceArray<T> a(host_a), b(host_b);
    const DeviceArray<U> bias(host_bias), d(ldd_ * shape_.n);
    if (beta != 0) fill(d);
    const void* pointer = bias.data();
    cublasLtMatmulDescSetAttribute(desc, CUBLASLT_MATMUL_DESC_BIAS_POINTER, &pointer,
                                   sizeof pointer);
    const TestStream stream;
    const float alpha = 0.5F;
    ASSERT_EQ(run(a.data(), b.data(), d.data(), alpha, beta, stream), CUBLAS_STATUS_SUCCESS);
    ASSERT_EQ(stream.finish(), cudaSuccess);
    const std::vector<U> values = d.read();
    for (std::size_t j = 0; j < shape_.n; ++j)
      for (std::size_t i = 0; i < shape_.m; ++i) {
        const double expected = reference(i, j, alpha, beta);
        const double got = to_float(values[j * ldd_ + i]);
        // k products of up to 1, each rounded to float32, and one rounding to the result's type;
        // gelu has slopes of up to 1.13.
        const double tolerance = 1.13 * static_cast<double>(shape_.k + 4) * 0x1p-23 +
                                 2 * kEpsilon<U> * (std::fabs(expected) + 1e-3);
        if (!(std::fabs(got - expected) <= tolerance))
          ADD_FAILURE() << "(" << i << ", " << j << "): " << got << ", expected " << expected;
      }
  }

  std::vector<T> host_a, host_b;
  std::vector<U> host_bias;
  cublasLtMatmulDesc_t desc = nullptr;
  cublasLtMatrixLayout_t layout_a = nullptr, layout_b = nullptr, layout_d = nullptr;
  cublasLtMatmulPreference_t preference = nullptr;

 private:
  void set_op(cublasLtMatmulDescAttributes_t what, bool transpose) {
    const cublasOperation_t op = transpose ? CUBLAS_OP_T : CUBLAS_OP_N;
    EXPECT_EQ(cublasLtMatmulDescSetAttribute(desc, what, &op, sizeof op), CUBLAS_STATUS_SUCCESS);
  }
  void make(cublasLtMatrixLayout_t* layout, cudaDataType type, std::size_t rows, std::size_t cols,
            std::size_t ld) {
    cublasLtMatrixLayoutCreate(layout, type, rows, cols, static_cast<std::int64_t>(ld));
  }
  void fill(const DeviceArray<U>& d) const {
    std::vector<U> twos(ldd_ * shape_.n);
    for (U& x : twos) from_float(2, x);
    GPU_CHECK(cudaMemcpy(d.data(), twos.data(), twos.size() * sizeof(U), cudaMemcpyHostToDevice));
  }
  double reference(std::size_t i, std::size_t j, double alpha, double beta) const {
    double sum = 0;
    for (std::size_t k = 0; k < shape_.k; ++k)
      sum += static_cast<double>(to_float(host_a[shape_.ta ? i * lda_ + k : k * lda_ + i])) *
             to_float(host_b[shape_.tb ? k * ldb_ + j : j * ldb_ + k]);
    double v = alpha * sum + beta * 2;
    if ((epilogue_ & CUBLASLT_EPILOGUE_BIAS) != 0) v += to_float(host_bias[i]);
    if ((epilogue_ & CUBLASLT_EPILOGUE_GELU) != 0)
      v = 0.5 * v * (1 + std::tanh(0.7978845608028654 * (v + 0.044715 * v * v * v)));
    return v;
  }

  Shape shape_;
  cublasLtEpilogue_t epilogue_;
  std::size_t lda_ = 0, ldb_ = 0, ldd_ = 0;
  cublasLtHandle_t lt_ = nullptr;
};

template <class T, class U>
void expect_all_right() {
  for (const auto epilogue : {CUBLASLT_EPILOGUE_DEFAULT, CUBLASLT_EPILOGUE_BIAS,
                              CUBLASLT_EPILOGUE_GELU, CUBLASLT_EPILOGUE_GELU_BIAS})
    for (const bool ta : {false, true})
      for (const bool tb : {false, true})
        for (const float beta : {0.0F, 1.0F})
          Product<T, U>({.pad_a = 2, .pad_b = 3, .pad_d = 4, .ta = ta, .tb = tb}, epilogue)
              .expect_right(beta);
  Product<T, U>({.m = 1, .n = 1, .k = 1}, CUBLASLT_EPILOGUE_DEFAULT).expect_right(0);
  Product<T, U>({.m = 65, .n = 9, .k = 33}, CUBLASLT_EPILOGUE_BIAS).expect_right(0);
}

TEST(CublasLt, FloatProducts) { expect_all_right<float, float>(); }
TEST(CublasLt, HalfProducts) {
  expect_all_right<__half, __half>();
  expect_all_right<__half, float>();
}
TEST(CublasLt, BFloatProducts) {
  expect_all_right<__nv_bfloat16, __nv_bfloat16>();
  expect_all_right<__nv_bfloat16, float>();
}

TEST(CublasLt, RefusesWhatTheRealOneRefuses) {
  cublasLtMatmulHeuristicResult_t result{};
  EXPECT_EQ((Product<float, __half>({}, CUBLASLT_EPILOGUE_DEFAULT).find(result)),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ((Product<float, float>({.m = 0}, CUBLASLT_EPILOGUE_DEFAULT).find(result)),
            CUBLAS_STATUS_INVALID_VALUE);
  Product<float, float> p({}, CUBLASLT_EPILOGUE_BIAS);
  const std::int32_t half = CUDA_R_16F;
  cublasLtMatmulDescSetAttribute(p.desc, CUBLASLT_MATMUL_DESC_BIAS_DATA_TYPE, &half, sizeof half);
  EXPECT_EQ(p.find(result), CUBLAS_STATUS_NOT_SUPPORTED) << "the bias has D's type";
  const std::int64_t ld = 4;
  Product<float, float> q({}, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(q.layout_a, CUBLASLT_MATRIX_LAYOUT_LD, &ld, 4),
            CUBLAS_STATUS_INVALID_VALUE)
      << "the size is not the attribute's";
  EXPECT_EQ(cublasLtMatrixLayoutSetAttribute(q.layout_a, CUBLASLT_MATRIX_LAYOUT_LD, &ld, sizeof ld),
            CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(q.find(result), CUBLAS_STATUS_INVALID_VALUE) << "a leading dimension below the rows";
}

TEST(CublasLt, EpiloguesCanBeMissing) {
  const ScopedVariable none("SHARDLM_FAKE_LT_NO_EPILOGUE", "1");
  cublasLtMatmulHeuristicResult_t result{};
  EXPECT_EQ((Product<float, float>({}, CUBLASLT_EPILOGUE_GELU_BIAS).find(result)),
            CUBLAS_STATUS_NOT_SUPPORTED);
  EXPECT_EQ((Product<float, float>({}, CUBLASLT_EPILOGUE_DEFAULT).find(result)),
            CUBLAS_STATUS_SUCCESS);
}

TEST(CublasLt, HoldsTheCallerToItsPromises) {
  const TestStream stream;
  const Shape shape{.m = 4, .n = 4, .k = 4};
  const DeviceArray<float> a(64), b(64), d(64);
  const auto run = [&](Product<float, float>& p, std::size_t skip) {
    return p.run(a.data() + skip, b.data(), d.data(), 1, 0, stream);
  };
  Product<float, float> by_default(shape, CUBLASLT_EPILOGUE_DEFAULT);
  EXPECT_EQ(run(by_default, 0), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(by_default, 4), CUBLAS_STATUS_INVALID_VALUE) << "the default promises 256 bytes";
  Product<float, float> sixteen(shape, CUBLASLT_EPILOGUE_DEFAULT);
  sixteen.promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 16);
  EXPECT_EQ(run(sixteen, 4), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(sixteen, 1), CUBLAS_STATUS_INVALID_VALUE) << "the address";
  Product<float, float> odd({.m = 4, .n = 4, .k = 4, .pad_a = 1}, CUBLASLT_EPILOGUE_DEFAULT);
  odd.promise(CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, 16);
  EXPECT_EQ(run(odd, 0), CUBLAS_STATUS_INVALID_VALUE) << "the columns";
  EXPECT_EQ(stream.finish(), cudaSuccess);
}

TEST(CublasLt, ChecksItsBuffers) {
  const TestStream stream;
  const Shape shape{.m = 4, .n = 4, .k = 4};
  const DeviceArray<float> a(16), b(16), d(16);
  const DeviceArray<char> workspace(4096);
  std::vector<float> host(16);
  Product<float, float> p(shape, CUBLASLT_EPILOGUE_DEFAULT);
  for (const auto what :
       {CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_A_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_B_BYTES,
        CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_C_BYTES, CUBLASLT_MATMUL_PREF_MIN_ALIGNMENT_D_BYTES})
    p.promise(what, 4);
  EXPECT_EQ(p.run(host.data(), b.data(), d.data(), 1, 0, stream), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(p.run(a.data() + 1, b.data(), d.data(), 1, 0, stream), CUBLAS_STATUS_INVALID_VALUE)
      << "ends outside its allocation";
  p.allow_workspace(1 << 20);
  const auto run = [&](void* w, std::size_t bytes) {
    return p.run(a.data(), b.data(), d.data(), 1, 0, stream, w, bytes);
  };
  EXPECT_EQ(run(workspace.data(), 4096), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(workspace.data(), 4095), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run(nullptr, 4096), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(run(host.data(), 4096), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(stream.finish(), cudaSuccess);
}

TEST(CublasLt, AnAlgorithmIsForWhatItWasChosen) {
  const TestStream stream;
  const DeviceArray<float> a(64), b(64), d(64);
  const Product<float, float> p({}, CUBLASLT_EPILOGUE_DEFAULT);
  cublasLtMatmulHeuristicResult_t result{};
  ASSERT_EQ(p.find(result), CUBLAS_STATUS_SUCCESS);
  cublasLtHandle_t lt = nullptr;
  ASSERT_EQ(cublasLtCreate(&lt), CUBLAS_STATUS_SUCCESS);
  const Product<float, float> other({}, CUBLASLT_EPILOGUE_GELU);
  const float one = 1, zero = 0;
  const auto run = [&](const Product<float, float>& q, const cublasLtMatmulAlgo_t* algorithm) {
    return cublasLtMatmul(lt, q.desc, &one, a.data(), q.layout_a, b.data(), q.layout_b, &zero,
                          d.data(), q.layout_d, d.data(), q.layout_d, algorithm, nullptr, 0,
                          stream);
  };
  EXPECT_EQ(run(p, &result.algo), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(p, nullptr), CUBLAS_STATUS_SUCCESS);
  EXPECT_EQ(run(other, &result.algo), CUBLAS_STATUS_INVALID_VALUE);
  EXPECT_EQ(stream.finish(), cudaSuccess);
  cublasLtDestroy(lt);
}

}  // namespace
}  // namespace shardlm::bench_test
