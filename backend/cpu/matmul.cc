#include "backend/cpu/matmul.h"

#include <algorithm>
#include <array>

#include "backend/cpu/matmul_quantised.h"
#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::int64_t kPanel = PackedMatrix::kPanel;
// Rows of a unit of work: a multiple of the kernel's 6; a tile of it fits the level-2 cache.
constexpr std::int64_t kUnitRows = 96;
// Below this many multiply-adds a thread, waking another one costs more than it gives.
constexpr std::int64_t kGrainProducts = 32 * 1024;

// Up to so many rows each thread turns them all to bytes itself: cheaper than a barrier.
constexpr std::int64_t kFewRows = 8;

void multiply_panel_bytes(DType dtype, const PanelProduct& product) {
  multiply_panel_quantised({.x = product.quantised,
                            .first_row = product.first_row,
                            .rows = product.rows,
                            .dtype = dtype,
                            .panel = product.panel,
                            .first_column = product.first_column,
                            .columns = product.columns,
                            .init = product.init,
                            .out = product.out,
                            .out_stride = product.out_stride,
                            .next_panel = product.next_panel});
}

// One place where a type of weights finds its kernel.
void multiply_panel(DType dtype, const PanelProduct& product) {
  switch (dtype) {
    case DType::f32:
      return multiply_panel_f32(product);
    case DType::q8:
    case DType::q4:
      return multiply_panel_bytes(dtype, product);
    default:
      return multiply_panel_unpacked(dtype, product);
  }
}

}  // namespace

void multiply_panel_unpacked(DType dtype, const PanelProduct& product) {
  const PanelLayout layout{.dtype = dtype, .in = product.in};
  std::vector<float>& unpacked = *product.scratch;
  unpacked.resize(static_cast<std::size_t>(layout.tiles() * PanelLayout::kInputs * kPanel) + 16);
  auto* aligned =
      reinterpret_cast<float*>((reinterpret_cast<std::uintptr_t>(unpacked.data()) + 63) / 64 * 64);
  for (std::int64_t t = 0; t < layout.tiles(); ++t) {
    unpack_tile(dtype, product.panel + t * static_cast<std::int64_t>(layout.tile_bytes()),
                std::min(PanelLayout::kInputs, layout.in - t * PanelLayout::kInputs),
                aligned + t * PanelLayout::kInputs * kPanel);
  }
  PanelProduct as_floats = product;
  as_floats.panel = reinterpret_cast<const std::byte*>(aligned);
  multiply_panel_f32(as_floats);
}

struct Matmul::Call {
  const Tensor& x;
  const PackedMatrix& w;
  const Tensor* bias;
  const Tensor& out;
  std::int64_t row_units;
};

Matmul::Matmul(ThreadPool& threads)
    : threads_(threads),
      scratch_(static_cast<std::size_t>(threads.size() * kUnitRows * kPanel)),
      kernel_scratch_(static_cast<std::size_t>(threads.size())),
      few_rows_(static_cast<std::size_t>(threads.size())) {}

void Matmul::run(const Tensor& x, const PackedMatrix& w, const Tensor* bias, const Tensor& out) {
  check(x.cols() == w.in(), "matmul: x has as many columns as the matrix has inputs");
  check(out.cols() == w.out() && out.rows() == x.rows(), "matmul: out is [rows of x, outputs]");
  check(bias == nullptr || bias->elements() == w.out(), "matmul: one bias an output");
  const Call call{x, w, bias, out, (x.rows() + kUnitRows - 1) / kUnitRows};
  const std::int64_t units = w.panels() * call.row_units;
  const std::int64_t products = std::min(x.rows(), kUnitRows) * w.in() * kPanel;
  const std::int64_t grain = kGrainProducts / std::max<std::int64_t>(products, 1) + 1;
  const bool quantised = is_quantised(w.dtype());
  const bool shared = quantised && x.rows() > kFewRows;
  const auto fill = [&](QuantisedRows& rows, std::int64_t begin, std::int64_t end) {
    rows.fill(x.row(0), x.stride(), begin, end);
  };
  if (shared) {
    many_rows_.resize(x.rows(), x.cols());
    threads_.parallel_for(
        x.rows(), kGrainProducts / (x.cols() + 1) + 1,
        [&](std::int64_t begin, std::int64_t end, int) { fill(many_rows_, begin, end); });
  }
  threads_.parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
    QuantisedRows& own = few_rows_[static_cast<std::size_t>(worker)];
    if (quantised && !shared) {
      own.resize(x.rows(), x.cols());
      fill(own, 0, x.rows());
    }
    for (std::int64_t unit = begin; unit < end; ++unit) {
      run_unit(call, unit, unit + 1 == end, worker, shared ? &many_rows_ : &own);
    }
  });
}

void Matmul::run_unit(const Call& call, std::int64_t unit, bool last, int worker,
                      const QuantisedRows* quantised) {
  float* const scratch = scratch_.data() + worker * kUnitRows * kPanel;
  const std::int64_t p = unit / call.row_units;
  const std::int64_t first_row = unit % call.row_units * kUnitRows;
  const std::int64_t first = p * kPanel;
  const std::int64_t width = std::min(kPanel, call.w.out() - first);
  std::array<float, kPanel> init{};
  if (call.bias != nullptr) std::copy_n(call.bias->row(0) + first, width, init.begin());

  const bool full = width == kPanel;
  PanelProduct product{.x = call.x.row(first_row),
                       .x_stride = call.x.stride(),
                       .rows = std::min(kUnitRows, call.x.rows() - first_row),
                       .panel = call.w.panel(p),
                       .in = call.w.in(),
                       .init = init.data(),
                       .out = full ? call.out.row(first_row) + first : scratch,
                       .out_stride = full ? call.out.stride() : kPanel,
                       .quantised = quantised,
                       .first_row = first_row,
                       .next_panel = last ? nullptr : call.w.panel((unit + 1) / call.row_units),
                       .scratch = &kernel_scratch_[static_cast<std::size_t>(worker)]};
  multiply_panel(call.w.dtype(), product);
  if (full) return;
  for (std::int64_t r = 0; r < product.rows; ++r) {
    std::copy_n(scratch + r * kPanel, width, call.out.row(first_row + r) + first);
  }
}

}  // namespace shardlm
