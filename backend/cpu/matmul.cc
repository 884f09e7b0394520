#include "backend/cpu/matmul.h"

#include <algorithm>
#include <array>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::int64_t kPanel = PackedMatrix::kPanel;
// Rows of a unit of work: a multiple of the kernel's 6; a tile of it fits the level-2 cache.
constexpr std::int64_t kUnitRows = 96;
// Below this many multiply-adds a thread, waking another one costs more than it gives.
constexpr std::int64_t kGrainProducts = 32 * 1024;

// One place where a type of weights finds its kernel.
void multiply_panel(DType dtype, const PanelProduct& product) {
  switch (dtype) {
    case DType::f32:
      return multiply_panel_f32(product);
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
      kernel_scratch_(static_cast<std::size_t>(threads.size())) {}

void Matmul::run(const Tensor& x, const PackedMatrix& w, const Tensor* bias, const Tensor& out) {
  check(x.cols() == w.in(), "matmul: x has as many columns as the matrix has inputs");
  check(out.cols() == w.out() && out.rows() == x.rows(), "matmul: out is [rows of x, outputs]");
  check(bias == nullptr || bias->elements() == w.out(), "matmul: one bias an output");
  const Call call{x, w, bias, out, (x.rows() + kUnitRows - 1) / kUnitRows};
  const std::int64_t units = w.panels() * call.row_units;
  const std::int64_t products = std::min(x.rows(), kUnitRows) * w.in() * kPanel;
  const std::int64_t grain = kGrainProducts / std::max<std::int64_t>(products, 1) + 1;
  threads_.parallel_for(units, grain, [&](std::int64_t begin, std::int64_t end, int worker) {
    for (std::int64_t unit = begin; unit < end; ++unit) run_unit(call, unit, worker);
  });
}

void Matmul::run_unit(const Call& call, std::int64_t unit, int worker) {
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
                       .scratch = &kernel_scratch_[static_cast<std::size_t>(worker)]};
  multiply_panel(call.w.dtype(), product);
  if (full) return;
  for (std::int64_t r = 0; r < product.rows; ++r) {
    std::copy_n(scratch + r * kPanel, width, call.out.row(first_row + r) + first);
  }
}

}  // namespace shardlm
