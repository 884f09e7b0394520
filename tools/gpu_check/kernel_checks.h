// The back end's ops against plain loops in double precision, on odd shapes. They see the Backend
// interface alone; on the way run the kernels, cuBLASLt and the copies between host and device.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "backend/backend.h"
#include "tools/gpu_check/findings.h"

namespace shardlm::gpu_check {

struct KernelCheck {
  Backend& backend;
  Findings& findings;

  DType dtype() const { return backend.precision().activations; }
  std::string where() const;  ///< "bf16" for messages
};

void check_rows(const KernelCheck& check);       ///< LayerNorm, residual, activations, tables
void check_attention(const KernelCheck& check);  ///< prefill and decode over a ragged batch
void check_matmul(const KernelCheck& check);
void check_logits(const KernelCheck& check);

// ---- what they share ----

/// `count` pseudo-random values in [-range, range] that `dtype` holds exactly.
std::vector<float> random_values(std::int64_t count, std::uint32_t seed, DType dtype = DType::f32,
                                 float range = 1);
/// A matrix on the device: float32, or in the activations' type.
Tensor put_floats(Backend& backend, std::int64_t rows, std::int64_t cols,
                  const std::vector<float>& values);
Tensor put_activations(Backend& backend, std::int64_t rows, std::int64_t cols,
                       const std::vector<float>& values);
std::vector<float> get(Backend& backend, const Tensor& tensor);

/// The activation in double precision.
double activated(Activation kind, double x);

}  // namespace shardlm::gpu_check
