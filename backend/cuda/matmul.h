// Matrix multiplication by cuBLASLt. The one place that knows that cuBLAS counts columns first.
#pragma once

#include <memory>
#include <optional>
#include <string>

#include "backend/backend.h"
#include "backend/cuda/cuda_matrix.h"
#include "backend/cuda/stream.h"

namespace shardlm::cuda {

/// out = activation(x w + bias), float32 accumulation, no TF32. x and w have the same element type;
/// out has it too or is float32; the bias has the type of out. Which order cuBLAS sums in depends
/// on shapes and device: a row's bits may differ with the number of rows beside it.
class Matmul {
 public:
  explicit Matmul(const Stream& stream);
  ~Matmul();
  Matmul(const Matmul&) = delete;
  Matmul& operator=(const Matmul&) = delete;

  void run(const MatrixView& x, const CudaMatrix& w, const MatrixView* bias,
           std::optional<Activation> activation, const MatrixView& out);

  static std::string library_version();

 private:
  struct Plan;
  struct Plans;
  const Plan& plan_for(const MatrixView& x, const CudaMatrix& w, bool bias, bool gelu,
                       const MatrixView& out);
  Plan make_plan(const MatrixView& x, const CudaMatrix& w, bool bias, bool gelu,
                 const MatrixView& out) const;
  void choose_algorithm(Plan& plan, const MatrixView& x, const CudaMatrix& w,
                        const MatrixView& out) const;
  void multiply(const Plan& plan, const MatrixView& x, const CudaMatrix& w, const MatrixView* bias,
                const MatrixView& out);

  const Stream& stream_;
  std::unique_ptr<Plans> plans_;
};

}  // namespace shardlm::cuda
