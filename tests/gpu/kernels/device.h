// What kernel tests share: device arrays, a stream, thread orders, comparison. Plain runtime calls
// only, so that the same tests run on a real device (where the order is the device's own).
#pragma once

#include <cuda_bf16.h>
#include <cuda_fp16.h>
#include <cuda_runtime_api.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <cstdint>
#include <cstring>
#include <limits>
#include <random>
#include <span>
#include <stdexcept>
#include <string>
#include <utility>
#include <vector>

#include "backend/cuda/kernels/view.h"

#if __has_include("cuda_emulation.h")
#include "cuda_emulation.h"
#include "tests/gpu/doubles/doubles.h"
#define SHARDLM_TEST_EMULATED 1
#endif

namespace shardlm::cuda {

/// Throws with the emulation's own text, if it has one, when a runtime call failed.
inline void require(cudaError_t error, const char* what) {
  if (error == cudaSuccess) return;
  std::string text = std::string(what) + ": " + cudaGetErrorName(error);
#if defined(SHARDLM_TEST_EMULATED)
  text += ": " + doubles::take_async_error();
#endif
  throw std::runtime_error(text);
}

/// A stream of the test; finish() waits for its work and throws what that met.
class TestStream {
 public:
  TestStream() { require(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "stream"); }
  TestStream(const TestStream&) = delete;
  TestStream& operator=(const TestStream&) = delete;
  ~TestStream() { cudaStreamDestroy(stream_); }

  operator cudaStream_t() const { return stream_; }
  void finish() const { require(cudaStreamSynchronize(stream_), "kernel"); }

 private:
  cudaStream_t stream_ = nullptr;
};

/// `count` elements of device memory with exactly that size, so that sanitizers see the bounds.
template <class T>
class DeviceArray {
 public:
  explicit DeviceArray(std::size_t count) : count_(count) {
    require(cudaMalloc(reinterpret_cast<void**>(&data_), std::max<std::size_t>(1, bytes())),
            "cudaMalloc");
  }
  explicit DeviceArray(const std::vector<T>& values) : DeviceArray(values.size()) {
    if (!values.empty()) {
      require(cudaMemcpy(data_, values.data(), bytes(), cudaMemcpyHostToDevice), "upload");
    }
  }
  DeviceArray(DeviceArray&& other) noexcept
      : data_(std::exchange(other.data_, nullptr)), count_(other.count_) {}
  DeviceArray& operator=(DeviceArray&&) = delete;
  ~DeviceArray() { cudaFree(data_); }

  T* data() const { return data_; }
  std::size_t size() const { return count_; }

  /// The contents; the caller has waited for the work that makes them.
  std::vector<T> read() const {
    std::vector<T> values(count_);
    if (count_ > 0) {
      require(cudaMemcpy(values.data(), data_, bytes(), cudaMemcpyDeviceToHost), "download");
    }
    return values;
  }

 private:
  std::size_t bytes() const { return count_ * sizeof(T); }

  T* data_ = nullptr;
  std::size_t count_ = 0;
};

inline std::size_t element_bytes(DType dtype) { return dtype == DType::f32 ? 4 : 2; }

/// Largest relative error of one rounding to the type: 2^-24, 2^-11, 2^-8.
inline double rounding(DType dtype) {
  return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

/// Largest absolute error of a rounding among the subnormal values of the type.
inline double smallest(DType dtype) { return dtype == DType::f16 ? 0x1p-25 : 0x1p-134; }

inline void store_element(DType dtype, float value, std::byte* to) {
  const auto put = [&](auto element) { std::memcpy(to, &element, sizeof element); };
  if (dtype == DType::f32) put(value);
  if (dtype == DType::f16) put(__float2half_rn(value));
  if (dtype == DType::bf16) put(__float2bfloat16_rn(value));
}

inline float load_element(DType dtype, const std::byte* from) {
  const auto get = [&](auto element) {
    return std::memcpy(&element, from, sizeof element), element;
  };
  if (dtype == DType::f16) return __half2float(get(__half{}));
  if (dtype == DType::bf16) return __bfloat162float(get(__nv_bfloat16{}));
  return get(float{});
}

/// A matrix in device memory. Before the first element, between the rows' ends and the next rows,
/// and wherever nothing was put stand NaNs; the memory ends with the last row's last element.
class DeviceMatrix {
 public:
  struct Layout {
    std::int64_t gap = 0;     ///< elements between the end of a row and the next row
    std::int64_t offset = 0;  ///< elements before the first: 1 makes the matrix unaligned
  };

  DeviceMatrix(DType dtype, std::int64_t rows, std::int64_t cols, Layout layout)
      : DeviceMatrix(dtype, rows, cols, nullptr, layout) {}
  DeviceMatrix(DType dtype, std::int64_t rows, std::int64_t cols)
      : DeviceMatrix(dtype, rows, cols, nullptr, Layout{}) {}
  /// `values` row by row, rows * cols of them; rounded to the type.
  DeviceMatrix(DType dtype, std::int64_t rows, std::int64_t cols, const std::vector<float>& values,
               Layout layout)
      : DeviceMatrix(dtype, rows, cols, &values, layout) {}
  DeviceMatrix(DType dtype, std::int64_t rows, std::int64_t cols, const std::vector<float>& values)
      : DeviceMatrix(dtype, rows, cols, &values, Layout{}) {}

  MatrixView view() const {
    return {memory_.data() + static_cast<std::size_t>(layout_.offset) * element_bytes(dtype_),
            rows_, cols_, cols_ + layout_.gap, dtype_};
  }

  /// The elements as float32, row by row. Fails the test if an element outside was written.
  std::vector<float> values() const {
    const auto bytes = memory_.read();
    std::vector<float> inside;
    std::int64_t touched = 0;
    for (std::int64_t i = 0; i < count(rows_, cols_, layout_); ++i) {
      const float value =
          load_element(dtype_, bytes.data() + static_cast<std::size_t>(i) * element_bytes(dtype_));
      const bool outside = i < layout_.offset || (i - layout_.offset) % stride() >= cols_;
      if (outside) {
        touched += !std::isnan(value);
      } else {
        inside.push_back(value);
      }
    }
    EXPECT_EQ(touched, 0) << "elements outside the view were written";
    return inside;
  }

 private:
  DeviceMatrix(DType dtype, std::int64_t rows, std::int64_t cols, const std::vector<float>* values,
               Layout layout)
      : dtype_(dtype),
        rows_(rows),
        cols_(cols),
        layout_(layout),
        memory_(filled(dtype, rows, cols, values, layout)) {}

  std::int64_t stride() const { return cols_ + layout_.gap; }
  static std::int64_t count(std::int64_t rows, std::int64_t cols, Layout layout) {
    return rows * cols == 0 ? layout.offset
                            : layout.offset + (rows - 1) * (cols + layout.gap) + cols;
  }
  static std::vector<std::byte> filled(DType dtype, std::int64_t rows, std::int64_t cols,
                                       const std::vector<float>* values, Layout layout) {
    const std::size_t width = element_bytes(dtype);
    std::vector<std::byte> bytes(static_cast<std::size_t>(count(rows, cols, layout)) * width,
                                 std::byte{0xff});
    if (values == nullptr) return bytes;
    if (values->size() != static_cast<std::size_t>(rows * cols)) {
      throw std::logic_error("DeviceMatrix: number of values");
    }
    for (std::int64_t i = 0; i < rows * cols; ++i) {
      const std::int64_t at = layout.offset + i / cols * (cols + layout.gap) + i % cols;
      store_element(dtype, (*values)[static_cast<std::size_t>(i)],
                    bytes.data() + static_cast<std::size_t>(at) * width);
    }
    return bytes;
  }

  DType dtype_;
  std::int64_t rows_, cols_;
  Layout layout_;
  DeviceArray<std::byte> memory_;
};

/// `count` values, uniform in [-scale, scale], that `dtype` holds exactly.
inline std::vector<float> random_values(std::int64_t count, std::uint32_t seed,
                                        DType dtype = DType::f32, float scale = 1) {
  std::mt19937 random(seed);
  std::vector<float> values(static_cast<std::size_t>(count));
  std::byte element[4];
  for (float& value : values) {
    value = (static_cast<float>(random() >> 8) * 0x1p-23F - 1) * scale;
    store_element(dtype, value, element);
    value = load_element(dtype, element);
  }
  return values;
}

/// Largest |got - want|; NaN if any of the pairs is not comparable, so compare with !(e <= limit).
inline double worst_error(std::span<const float> got, std::span<const double> want) {
  if (got.size() != want.size()) return std::numeric_limits<double>::quiet_NaN();
  double worst = 0;
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double error = got[i] == want[i] ? 0 : std::abs(got[i] - want[i]);
    if (!(error <= worst)) worst = error;
    if (std::isnan(worst)) return worst;
  }
  return worst;
}

/// |got - want| <= absolute + relative |want|, element by element; NaN is never near.
inline ::testing::AssertionResult all_near(std::span<const float> got, std::span<const double> want,
                                           double absolute, double relative = 0) {
  if (got.size() != want.size()) {
    return ::testing::AssertionFailure() << got.size() << " values, not " << want.size();
  }
  for (std::size_t i = 0; i < got.size(); ++i) {
    const double limit = absolute + relative * std::abs(want[i]);
    if (got[i] == want[i] || std::abs(got[i] - want[i]) <= limit) continue;
    return ::testing::AssertionFailure()
           << "element " << i << ": " << got[i] << ", not " << want[i] << " within " << limit
           << "; worst error of all " << worst_error(got, want);
  }
  return ::testing::AssertionSuccess();
}

/// The order in which the emulation runs threads and blocks.
enum class ThreadOrder { forward, reverse, shuffled };

inline void set_thread_order([[maybe_unused]] ThreadOrder order) {
#if defined(SHARDLM_TEST_EMULATED)
  emu::options().order = order == ThreadOrder::forward   ? emu::Order::forward
                         : order == ThreadOrder::reverse ? emu::Order::reverse
                                                         : emu::Order::shuffled;
#endif
}

/// Runs each of its tests (TEST_P) in every thread order.
class KernelTest : public ::testing::TestWithParam<ThreadOrder> {
 protected:
  void SetUp() override { set_thread_order(GetParam()); }
  void TearDown() override {
    EXPECT_NO_THROW(stream.finish());
    set_thread_order(ThreadOrder::forward);
  }

  TestStream stream;
};

inline std::string order_name(const ::testing::TestParamInfo<ThreadOrder>& info) {
  return info.param == ThreadOrder::forward   ? "forward"
         : info.param == ThreadOrder::reverse ? "reverse"
                                              : "shuffled";
}

/// Once a fixture that derives from KernelTest.
#define SHARDLM_EVERY_THREAD_ORDER(Fixture)                                                 \
  INSTANTIATE_TEST_SUITE_P(                                                                 \
      Orders, Fixture,                                                                      \
      ::testing::Values(ThreadOrder::forward, ThreadOrder::reverse, ThreadOrder::shuffled), \
      order_name)

}  // namespace shardlm::cuda
