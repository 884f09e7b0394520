#include "tools/gpu_check/peaks.h"

#include <array>
#include <string_view>

namespace shardlm::gpu_check {
namespace {

struct Row {
  std::string_view part_of_name;  ///< the first row that fits counts
  double f32, half;               ///< TFLOP/s
};

// NVIDIA's data sheets, without sparsity.
constexpr std::array kTable = {
    Row{"GH200", 67, 989},     Row{"H200 NVL", 60, 835},     Row{"H200", 67, 989},
    Row{"H100 PCIe", 51, 756}, Row{"H100 NVL", 60, 835},     Row{"H100", 67, 989},
    Row{"H800", 67, 989},      Row{"A100", 19.5, 312},       Row{"A800", 19.5, 312},
    Row{"A30", 10.3, 165},     Row{"A40", 37.4, 149.7},      Row{"A10G", 31.5, 70},
    Row{"A10", 31.2, 125},     Row{"L40S", 91.6, 362},       Row{"L40", 90.5, 181},
    Row{"L4", 30.3, 121},      Row{"RTX 4090", 82.6, 165.2}, Row{"RTX 3090", 35.6, 71},
};

void set_or_unknown(Figures& figures, const char* name, double value) {
  if (value > 0) {
    figures.set(name, value);
  } else {
    figures.set(name, "unknown");
  }
}

}  // namespace

Peaks peaks_of(const GpuDevice& device) {
  Peaks peaks{.memory_gb_s = device.memory_gb_s};
  for (const Row& row : kTable) {
    if (device.name.find(row.part_of_name) == std::string::npos) continue;
    peaks.f32_tflop_s = row.f32;
    peaks.half_tflop_s = row.half;
    break;
  }
  return peaks;
}

double compute_peak(const Peaks& peaks, DType dtype) {
  return dtype == DType::f32 ? peaks.f32_tflop_s : peaks.half_tflop_s;
}

Figures figures_of(const Peaks& peaks) {
  Figures figures;
  set_or_unknown(figures, "memory_gb_s", peaks.memory_gb_s);
  set_or_unknown(figures, "f32_tflop_s", peaks.f32_tflop_s);
  set_or_unknown(figures, "half_tflop_s", peaks.half_tflop_s);
  return figures;
}

}  // namespace shardlm::gpu_check
