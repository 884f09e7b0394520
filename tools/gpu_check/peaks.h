// What a device can do at most, as a yardstick for what was measured.
#pragma once

#include "comm/gpu.h"
#include "tools/gpu_check/figures.h"

namespace shardlm::gpu_check {

/// 0: unknown.
struct Peaks {
  double memory_gb_s = 0;   ///< of the memory bus, as the device's clock and width say
  double f32_tflop_s = 0;   ///< without tensor cores, as matrices of float32 are multiplied here
  double half_tflop_s = 0;  ///< f16 and bf16 on tensor cores, dense, float32 sums
};

/// Compute peaks are the makers' data sheets', by the device's name.
Peaks peaks_of(const GpuDevice& device);
double compute_peak(const Peaks& peaks, DType dtype);

/// With "unknown" for what is not known.
Figures figures_of(const Peaks& peaks);

}  // namespace shardlm::gpu_check
