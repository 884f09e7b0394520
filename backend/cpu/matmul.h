// Products of activations with packed weights.
#pragma once

#include <optional>
#include <vector>

#include "backend/cpu/amx_matmul.h"
#include "backend/cpu/fixed_rows.h"
#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/quantised_rows.h"
#include "backend/cpu/thread_pool.h"
#include "backend/tensor.h"

namespace shardlm {

/// Some rows of x times one panel or some of its columns: out[r, j] = init[j] + sum over k of
/// x[r, k] w[k, j]. For float weights one chain of multiply-adds over ascending k each (fused where
/// the instruction set has it: all but SSE4 and plain scalar code), whatever the rows and columns.
struct PanelProduct {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t rows = 0;
  const std::byte* panel = nullptr;  ///< see panel_layout.h
  std::int64_t in = 0;
  std::int64_t first_column = 0, columns = PanelLayout::kOutputs;  ///< the panel, or half of it
  const float* init = nullptr;                                     ///< `columns` floats
  float* out = nullptr;                                            ///< `columns` floats a row
  std::int64_t out_stride = 0;
  const QuantisedRows* quantised = nullptr;  ///< for int8 and int4: x as bytes, from first_row on
  const AmxRows* rounded = nullptr;          ///< for bf16 by AMX: x as bfloat16, from first_row on
  std::int64_t first_row = 0;
  const std::byte* next_panel = nullptr;  ///< this thread's next one, to be brought near
  std::vector<float>* scratch = nullptr;  ///< this thread's, for the kernel alone
  /// Not none: each block of inputs is a chain of its own from `init` (zeros), and is added here;
  /// nothing is written to `out`.
  FixedSums* fixed = nullptr;
};
/// A kernel: one for each type of weights.
using MultiplyPanel = void(const PanelProduct& product);
void multiply_panel_f32(const PanelProduct& product);
/// The bits of multiply_panel_f32 on the widened weights, which is exact.
void multiply_panel_bf16(const PanelProduct& product);
void multiply_panel_f16(const PanelProduct& product);

/// See Backend::matmul and matmul_activate.
class Matmul {
 public:
  explicit Matmul(ThreadPool& threads);
  void run(const Tensor& x, const PackedMatrix& w, const Tensor* bias,
           std::optional<Activation> activation, const Tensor& out);
  /// See Backend::matmul_fixed.
  std::optional<FixedMisfit> run_fixed(const Tensor& x, const PackedMatrix& w, std::int64_t block,
                                       const Tensor& out);
  /// False: never products that round activations to bfloat16 from kAmxRows rows on, so that a row
  /// has the same bits in any number of them.
  void allow_rounding(bool allowed) { rounding_ = allowed; }

  /// Rows up to this count may be multiplied by parts of a matrix (below).
  static constexpr std::int64_t kFewRows = 8;
  /// True if outputs may be cut at every multiple of `width`.
  static bool can_cut(const PackedMatrix& w, std::int64_t width);
  /// Outputs [first, end) alone, on the calling thread of the pool: for ops that do more with them.
  void run_part(const Tensor& x, const PackedMatrix& w, const Tensor* bias, const Tensor& out,
                std::int64_t first, std::int64_t end, int worker);

 private:
  struct Call;
  struct Unit;
  void run_call(const Call& call);
  void run_pieces(const Call& call, const QuantisedRows* quantised, std::int64_t begin,
                  std::int64_t end, int worker);
  const AmxRows* round_for_all(const Tensor& x);
  const QuantisedRows* quantise_for_all(const Tensor& x);
  const QuantisedRows* quantise_alone(const Tensor& x, int worker);
  void run_unit(const Call& call, const Unit& unit, int worker);
  void run_fixed_unit(const Call& call, const Unit& unit, int worker);

  ThreadPool& threads_;
  std::vector<float> scratch_;  // one tile a thread, for panels that are not full
  std::vector<std::vector<float>> kernel_scratch_;   // one a thread
  std::vector<QuantisedRows> few_rows_;              // one a thread
  QuantisedRows many_rows_;                          // for all threads
  AmxRows rounded_rows_;                             // for all threads
  std::vector<std::optional<FixedMisfit>> misfits_;  // one a thread
  bool rounding_ = true;
};

}  // namespace shardlm
