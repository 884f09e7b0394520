// A CUDA back end on an emulated device, and matrices on both sides.
#pragma once

#include <gtest/gtest.h>

#include <cstdint>
#include <random>
#include <vector>

#include "backend/cuda/cuda_backend.h"

namespace shardlm::cuda {

/// A row-major matrix on the host.
struct HostMatrix {
  HostMatrix(std::int64_t n_rows, std::int64_t n_cols)
      : rows(n_rows), cols(n_cols), data(static_cast<std::size_t>(n_rows * n_cols)) {}
  float& at(std::int64_t r, std::int64_t c) { return data[static_cast<std::size_t>(r * cols + c)]; }
  float at(std::int64_t r, std::int64_t c) const {
    return data[static_cast<std::size_t>(r * cols + c)];
  }
  std::int64_t rows, cols;
  std::vector<float> data;
};

/// Normal numbers, rounded to `dtype` so that bringing them to the device loses nothing.
inline HostMatrix random_matrix(std::int64_t rows, std::int64_t cols, unsigned seed,
                                DType dtype = DType::f32) {
  HostMatrix m(rows, cols);
  std::mt19937 random(seed);
  std::normal_distribution<float> normal;
  for (float& x : m.data) x = normal(random);
  std::vector<std::byte> narrow(m.data.size() * bits(dtype) / 8);
  from_float32(dtype, m.data, narrow);
  to_float32(dtype, narrow, m.data);
  return m;
}

inline Tensor upload(Backend& backend, const HostMatrix& m, bool activation = false) {
  Tensor t =
      activation ? backend.allocate_activation(m.rows, m.cols) : backend.allocate(m.rows, m.cols);
  backend.upload(m.data, t);
  return t;
}

inline HostMatrix download(Backend& backend, const Tensor& t) {
  HostMatrix m(t.rows(), t.cols());
  backend.download(t, m.data);
  return m;
}

inline std::unique_ptr<WeightMatrix> make_matrix(Backend& backend, const HostMatrix& m,
                                                 bool rows_are_outputs) {
  return backend.make_matrix({.in = rows_are_outputs ? m.cols : m.rows,
                              .out = rows_are_outputs ? m.rows : m.cols,
                              .rows_are_outputs = rows_are_outputs,
                              .read_row = [&m](std::int64_t row, std::span<float> to) {
                                for (std::int64_t c = 0; c < m.cols; ++c) {
                                  to[static_cast<std::size_t>(c)] = m.at(row, c);
                                }
                              }});
}

inline Precision all_of(DType dtype) {
  return {.weights = dtype, .activations = dtype, .kv = dtype};
}

/// Half a unit in the last place of 1.
inline double epsilon_of(DType dtype) {
  return dtype == DType::f32 ? 0x1p-24 : dtype == DType::f16 ? 0x1p-11 : 0x1p-8;
}

}  // namespace shardlm::cuda
