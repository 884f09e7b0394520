#include "backend/cpu/matmul.h"

#include <algorithm>
#include <array>
#include <utility>

#include "backend/cpu/cpu_features.h"
#include "backend/cpu/matmul_quantised.h"
#include "backend/cpu/row_kernels.h"
#include "backend/cpu/simd.h"
#include "base/error.h"

namespace shardlm {
namespace {

constexpr std::int64_t kPanel = PackedMatrix::kPanel;
// Rows of a unit of work at most: with 768 inputs they leave half of the level-2 cache free.
constexpr std::int64_t kUnitRows = 192;
// Below this many multiply-adds a thread, waking another one costs more than it gives.
constexpr std::int64_t kGrainProducts = 32 * 1024;

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
                            .next_panel = product.next_panel,
                            .fixed = product.fixed});
}

void multiply_panel_rounded(const PanelProduct& product) {
  multiply_panel_amx(AmxProduct{.x = product.rounded,
                                .first_row = product.first_row,
                                .rows = product.rows,
                                .panel = product.panel,
                                .first_column = product.first_column,
                                .columns = product.columns,
                                .init = product.init,
                                .out = product.out,
                                .out_stride = product.out_stride,
                                .next_panel = product.next_panel});
}

bool by_amx(const Tensor& x, const PackedMatrix& w) {
  return w.dtype() == DType::bf16 && x.rows() >= kAmxRows && cpu_features().amx_bf16 &&
         cpu_simd_target() == "AVX3";
}

// Where threads may cut the outputs: finer than a panel, so that 25 panels are shared evenly by
// two threads. Only the panels at the ends of a thread's range are ever cut.
std::int64_t piece_columns(DType dtype) { return is_quantised(dtype) ? kPanel : kPanel / 2; }

// One place where a type of weights finds its kernel.
void multiply_panel(DType dtype, const PanelProduct& product) {
  switch (dtype) {
    case DType::f32:
      return multiply_panel_f32(product);
    case DType::bf16:
      return product.rounded != nullptr ? multiply_panel_rounded(product)
                                        : multiply_panel_bf16(product);
    case DType::f16:
      return multiply_panel_f16(product);
    case DType::q8:
    case DType::q4:
      return multiply_panel_bytes(dtype, product);
    default:
      check(false, "a type of packed weights");
  }
}

}  // namespace

struct Matmul::Call {
  const Tensor& x;
  const PackedMatrix& w;
  const Tensor* bias;
  std::optional<Activation> activation;
  const Tensor& out;
  const AmxRows* rounded = nullptr;  // all rows, for bf16 by AMX
  std::int64_t fixed_block = 0;      // of matmul_fixed; 0: floats

  // A piece is some outputs of one block of rows; pieces are numbered block by block.
  std::int64_t blocks() const { return (x.rows() + kUnitRows - 1) / kUnitRows; }
  /// Of the b-th block; tiles of AMX are cut nowhere.
  std::int64_t first_row(std::int64_t b) const {
    static_assert(kUnitRows % AmxRows::kRows == 0, "rounding up makes no block larger");
    const std::int64_t row = x.rows() * b / blocks();
    if (rounded == nullptr || b == blocks()) return row;
    return (row + AmxRows::kRows - 1) / AmxRows::kRows * AmxRows::kRows;
  }
  std::int64_t pieces() const {
    const std::int64_t piece = piece_columns(w.dtype());
    return (w.out() + piece - 1) / piece;  // of a block
  }
};

/// Some rows by the outputs of one panel or a part of it.
struct Matmul::Unit {
  std::int64_t first_row, rows;
  const QuantisedRows* quantised;  // all rows, for int8 and int4
  const std::byte* next_panel;
  std::int64_t first, columns;  // may reach behind the last output, into the panel's padding
};

Matmul::Matmul(ThreadPool& threads)
    : threads_(threads),
      scratch_(static_cast<std::size_t>(threads.size() * kUnitRows * kPanel)),
      kernel_scratch_(static_cast<std::size_t>(threads.size())),
      few_rows_(static_cast<std::size_t>(threads.size())),
      misfits_(static_cast<std::size_t>(threads.size())) {}

const AmxRows* Matmul::round_for_all(const Tensor& x) {
  rounded_rows_.resize(x.rows(), x.cols());
  threads_.parallel_for(rounded_rows_.row_tiles(),
                        kGrainProducts / (x.cols() * AmxRows::kRows + 1) + 1,
                        [&](std::int64_t begin, std::int64_t end, int) {
                          rounded_rows_.fill(x.row(0), x.stride(), begin, end);
                        });
  return &rounded_rows_;
}

const QuantisedRows* Matmul::quantise_for_all(const Tensor& x) {
  many_rows_.resize(x.rows(), x.cols());
  threads_.parallel_for(x.rows(), kGrainProducts / (x.cols() + 1) + 1,
                        [&](std::int64_t begin, std::int64_t end, int) {
                          many_rows_.fill(x.row(0), x.stride(), begin, end);
                        });
  return &many_rows_;
}

const QuantisedRows* Matmul::quantise_alone(const Tensor& x, int worker) {
  QuantisedRows& own = few_rows_[static_cast<std::size_t>(worker)];
  own.resize(x.rows(), x.cols());
  own.fill(x.row(0), x.stride(), 0, x.rows());
  return &own;
}

void Matmul::run(const Tensor& x, const PackedMatrix& w, const Tensor* bias,
                 std::optional<Activation> activation, const Tensor& out) {
  check(x.cols() == w.in(), "matmul: x has as many columns as the matrix has inputs");
  check(out.cols() == w.out() && out.rows() == x.rows(), "matmul: out is [rows of x, outputs]");
  check(bias == nullptr || bias->elements() == w.out(), "matmul: one bias an output");
  run_call({x, w, bias, activation, out, rounding_ && by_amx(x, w) ? round_for_all(x) : nullptr});
}

std::optional<FixedMisfit> Matmul::run_fixed(const Tensor& x, const PackedMatrix& w,
                                             std::int64_t block, const Tensor& out) {
  check(x.cols() == w.in(), "matmul: x has as many columns as the matrix has inputs");
  check(out.cols() == w.out() && out.rows() == x.rows(), "matmul: out is [rows of x, outputs]");
  check(out.dtype() == DType::i64, "matmul_fixed: out is in fixed point");
  check(block > 0 && block <= kFixedBlock && block % fixed_granule(w.dtype()) == 0,
        "matmul_fixed: blocks of whole lines of the panels");
  check((w.in() + block - 1) / block <= kFixedBlocks, "matmul_fixed: blocks that cannot overflow");
  std::ranges::fill(misfits_, std::nullopt);
  run_call({x, w, nullptr, std::nullopt, out, nullptr, block});
  std::optional<FixedMisfit> first;
  for (const std::optional<FixedMisfit>& m : misfits_) {
    if (m && (!first || std::pair(m->row, m->output) < std::pair(first->row, first->output)))
      first = m;
  }
  return first;
}

void Matmul::run_call(const Call& call) {
  const Tensor& x = call.x;
  const PackedMatrix& w = call.w;
  const std::int64_t products = std::min(x.rows(), kUnitRows) * w.in() * piece_columns(w.dtype());
  const std::int64_t grain = kGrainProducts / std::max<std::int64_t>(products, 1) + 1;
  const bool as_bytes = is_quantised(w.dtype());
  // Few rows each thread turns to bytes itself: cheaper than a barrier.
  const QuantisedRows* shared = as_bytes && x.rows() > kFewRows ? quantise_for_all(x) : nullptr;
  threads_.parallel_for(call.blocks() * call.pieces(), grain,
                        [&](std::int64_t begin, std::int64_t end, int worker) {
                          const QuantisedRows* quantised =
                              as_bytes && shared == nullptr ? quantise_alone(x, worker) : shared;
                          run_pieces(call, quantised, begin, end, worker);
                        });
}

bool Matmul::can_cut(const PackedMatrix& w, std::int64_t width) {
  return width % piece_columns(w.dtype()) == 0;
}

void Matmul::run_part(const Tensor& x, const PackedMatrix& w, const Tensor* bias, const Tensor& out,
                      std::int64_t first, std::int64_t end, int worker) {
  check(x.rows() <= kFewRows && can_cut(w, first) && can_cut(w, end), "matmul: a part of few rows");
  const std::int64_t piece = piece_columns(w.dtype());
  const QuantisedRows* quantised = is_quantised(w.dtype()) ? quantise_alone(x, worker) : nullptr;
  run_pieces({x, w, bias, std::nullopt, out}, quantised, first / piece, end / piece, worker);
}

void Matmul::run_pieces(const Call& call, const QuantisedRows* quantised, std::int64_t begin,
                        std::int64_t end, int worker) {
  const std::int64_t piece = piece_columns(call.w.dtype()), in_panel = kPanel / piece;
  const std::int64_t pieces = call.pieces();
  while (begin < end) {
    const std::int64_t b = begin / pieces, first = begin % pieces;
    // To the end of the panel, of the outputs or of this thread's share.
    const std::int64_t count = std::min({in_panel - first % in_panel, pieces - first, end - begin});
    const std::int64_t row = call.first_row(b);
    const std::byte* next =
        begin + count == end ? nullptr : call.w.panel((first + count) % pieces * piece / kPanel);
    const Unit unit{.first_row = row,
                    .rows = call.first_row(b + 1) - row,
                    .quantised = quantised,
                    .next_panel = next,
                    .first = first * piece,
                    .columns = count * piece};
    call.fixed_block == 0 ? run_unit(call, unit, worker) : run_fixed_unit(call, unit, worker);
    threads_.poll(worker);
    begin += count;
  }
}

void Matmul::run_unit(const Call& call, const Unit& unit, int worker) {
  float* const scratch = scratch_.data() + worker * kUnitRows * kPanel;
  const std::int64_t width = std::min(unit.columns, call.w.out() - unit.first);
  std::array<float, kPanel> init{};
  if (call.bias != nullptr) std::copy_n(call.bias->row(0) + unit.first, width, init.begin());
  const bool full = width == unit.columns;
  multiply_panel(call.w.dtype(), {.x = call.x.row(unit.first_row),
                                  .x_stride = call.x.stride(),
                                  .rows = unit.rows,
                                  .panel = call.w.panel(unit.first / kPanel),
                                  .in = call.w.in(),
                                  .first_column = unit.first % kPanel,
                                  .columns = unit.columns,
                                  .init = init.data(),
                                  .out = full ? call.out.row(unit.first_row) + unit.first : scratch,
                                  .out_stride = full ? call.out.stride() : kPanel,
                                  .quantised = unit.quantised,
                                  .rounded = call.rounded,
                                  .first_row = unit.first_row,
                                  .next_panel = unit.next_panel,
                                  .scratch = &kernel_scratch_[static_cast<std::size_t>(worker)],
                                  .fixed = nullptr});
  for (std::int64_t r = 0; r < unit.rows; ++r) {
    float* out = call.out.row(unit.first_row + r) + unit.first;
    if (!full) std::copy_n(scratch + r * kPanel, width, out);
    if (call.activation) activate_row(*call.activation, width, out);
  }
}

void Matmul::run_fixed_unit(const Call& call, const Unit& unit, int worker) {
  constexpr std::array<float, kPanel> kZeros{};
  FixedSums sums{.block = call.fixed_block,
                 .out = call.out.fixed_row(unit.first_row) + unit.first,
                 .stride = call.out.stride(),
                 .columns = std::min(unit.columns, call.w.out() - unit.first)};
  multiply_panel(call.w.dtype(), {.x = call.x.row(unit.first_row),
                                  .x_stride = call.x.stride(),
                                  .rows = unit.rows,
                                  .panel = call.w.panel(unit.first / kPanel),
                                  .in = call.w.in(),
                                  .first_column = unit.first % kPanel,
                                  .columns = unit.columns,
                                  .init = kZeros.data(),
                                  .out = nullptr,
                                  .out_stride = kPanel,
                                  .quantised = unit.quantised,
                                  .rounded = nullptr,
                                  .first_row = unit.first_row,
                                  .next_panel = unit.next_panel,
                                  .scratch = &kernel_scratch_[static_cast<std::size_t>(worker)],
                                  .fixed = &sums});
  std::optional<FixedMisfit>& mine = misfits_[static_cast<std::size_t>(worker)];
  if (!sums.misfit || mine) return;
  mine = FixedMisfit{.row = unit.first_row + sums.misfit->row,
                     .output = unit.first + sums.misfit->output,
                     .sum = sums.misfit->sum};
}

}  // namespace shardlm
