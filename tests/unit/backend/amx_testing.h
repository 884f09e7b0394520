// What the tests of products by AMX share.
#pragma once

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "backend/cpu/amx_matmul.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/weight_arena.h"
#include "base/dtype.h"
#include "tests/unit/backend/amx_emulation.h"
#include "tests/unit/backend/cpu_testing.h"

#define SHARDLM_AMX
#include "backend/cpu/amx_bf16-inl.h"
#include "backend/cpu/amx_int8-inl.h"

namespace shardlm {

inline PackedMatrix packed(const HostMatrix& w, DType dtype) {
  ThreadPool threads(1);
  const auto read_row = [&](std::int64_t row, std::span<float> to) {
    std::ranges::copy(w.row(row), to.begin());
  };
  WeightArena arena;
  return PackedMatrix(
      {.in = w.rows, .out = w.cols, .rows_are_outputs = false, .read_row = read_row}, dtype, arena,
      threads);
}

inline HostMatrix some_rows(const HostMatrix& m, std::int64_t first, std::int64_t rows) {
  HostMatrix part(rows, m.cols);
  std::copy_n(m.data.begin() + first * m.cols, rows * m.cols, part.data.begin());
  return part;
}

/// As base/dtype.h rounds.
inline HostMatrix rounded(const HostMatrix& m) {
  HostMatrix result = m;
  std::vector<std::byte> stored(m.data.size() * 2);
  from_float32(DType::bf16, m.data, stored);
  to_float32(DType::bf16, stored, result.data);
  return result;
}

/// Bias of a panel, zeros behind the last output.
inline std::vector<float> panel_bias(const HostMatrix& bias, std::int64_t first) {
  std::vector<float> init(PanelLayout::kOutputs);
  std::copy_n(bias.data.begin() + first, std::min(PanelLayout::kOutputs, bias.cols - first),
              init.begin());
  return init;
}

/// The panels by `multiply(panel, first output, [rows][64])`.
template <class Multiply>
HostMatrix by_panels(std::int64_t rows, const PackedMatrix& w, const Multiply& multiply) {
  HostMatrix out(rows, w.out());
  for (std::int64_t p = 0; p < w.panels(); ++p) {
    const std::int64_t first = p * PanelLayout::kOutputs;
    std::vector<float> tile(static_cast<std::size_t>(rows * PanelLayout::kOutputs));
    multiply(p, first, tile.data());
    for (std::int64_t r = 0; r < rows; ++r) {
      std::copy_n(tile.data() + r * PanelLayout::kOutputs,
                  std::min(PanelLayout::kOutputs, w.out() - first), &out.at(r, first));
    }
  }
  return out;
}

template <class Kernel>
HostMatrix multiply_bf16(const HostMatrix& x, const PackedMatrix& w, const HostMatrix& bias,
                         const Kernel& kernel) {
  AmxRows rows;
  rows.resize(x.rows, x.cols);
  rows.fill(x.data.data(), x.cols, 0, rows.row_tiles());
  return by_panels(x.rows, w, [&](std::int64_t p, std::int64_t first, float* out) {
    const std::vector<float> init = panel_bias(bias, first);
    kernel(AmxProduct{.x = &rows,
                      .rows = x.rows,
                      .panel = w.panel(p),
                      .init = init.data(),
                      .out = out,
                      .out_stride = PanelLayout::kOutputs,
                      .next_panel = w.panel(0)});
  });
}

inline HostMatrix emulated_bf16(const HostMatrix& x, const PackedMatrix& w,
                                const HostMatrix& bias) {
  return multiply_bf16(x, w, bias, amx::multiply_bf16<EmulatedTiles>);
}

template <class Kernel>
HostMatrix multiply_bytes(const HostMatrix& x, const PackedMatrix& w, const HostMatrix& bias,
                          const Kernel& kernel) {
  QuantisedRows rows;
  rows.resize(x.rows, x.cols);
  rows.fill(x.data.data(), x.cols, 0, x.rows);
  return by_panels(x.rows, w, [&](std::int64_t p, std::int64_t first, float* out) {
    const std::vector<float> init = panel_bias(bias, first);
    kernel(QuantisedProduct{.x = &rows,
                            .rows = x.rows,
                            .dtype = w.dtype(),
                            .panel = w.panel(p),
                            .init = init.data(),
                            .out = out,
                            .out_stride = PanelLayout::kOutputs,
                            .next_panel = w.panel(0)});
  });
}

struct Shape {
  std::int64_t rows, in, out;
};

inline void expect_products(const HostMatrix& x, const HostMatrix& w, const HostMatrix& bias,
                            const HostMatrix& found) {
  const HostMatrix exact_x = rounded(x), exact_w = rounded(w);
  for (std::int64_t t = 0; t < x.rows; ++t) {
    for (std::int64_t j = 0; j < w.cols; ++j) {
      double sum = bias.at(0, j), size = std::abs(sum);
      for (std::int64_t k = 0; k < x.cols; ++k) {
        const double term = double{exact_x.at(t, k)} * double{exact_w.at(k, j)};
        sum += term;
        size += std::abs(term);
      }
      // Sixteen additions in a chain of a tile, one of the chains, one a tile, one of the bias.
      const double bound = (19 + static_cast<double>(x.cols) / 32) * kRounding * size;
      ASSERT_NEAR(found.at(t, j), sum, bound)
          << x.rows << " rows, " << x.cols << " x " << w.cols << " at " << t << ", " << j;
    }
  }
}

}  // namespace shardlm
