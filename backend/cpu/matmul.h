// Products of activations with packed weights.
#pragma once

#include <vector>

#include "backend/cpu/packed_matrix.h"
#include "backend/cpu/thread_pool.h"
#include "backend/tensor.h"

namespace shardlm {

/// Some rows of x times one panel: out[r, 0..64) = init + sum over k ascending of x[r, k] w[k, :],
/// one chain of multiply-adds each (fused where the instruction set has it: all but SSE4 and
/// plain scalar code).
struct PanelProduct {
  const float* x = nullptr;
  std::int64_t x_stride = 0;
  std::int64_t rows = 0;
  const float* panel = nullptr;  ///< [in][64], 64-byte aligned
  std::int64_t in = 0;
  const float* init = nullptr;  ///< 64 floats
  float* out = nullptr;         ///< 64 floats a row
  std::int64_t out_stride = 0;
};
void multiply_panel(const PanelProduct& product);

/// See Backend::matmul.
class Matmul {
 public:
  explicit Matmul(ThreadPool& threads);
  void run(const Tensor& x, const PackedMatrix& w, const Tensor* bias, const Tensor& out);

 private:
  struct Call;
  void run_unit(const Call& call, std::int64_t unit, int worker);

  ThreadPool& threads_;
  std::vector<float> scratch_;                // one tile a thread, for panels that are not full
  std::vector<std::vector<float>> unpacked_;  // a panel a thread
};

}  // namespace shardlm
