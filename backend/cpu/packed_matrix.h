// A weight matrix in the layout that the matmul kernels stream through.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/panel_layout.h"
#include "backend/cpu/thread_pool.h"
#include "backend/cpu/weight_arena.h"

namespace shardlm {

/// Panels of 64 outputs, one after another (see panel_layout.h), the last one padded with zeros.
class PackedMatrix final : public WeightMatrix {
 public:
  static constexpr std::int64_t kPanel = PanelLayout::kOutputs;

  PackedMatrix(const MatrixSource& source, DType dtype, WeightArena& arena, ThreadPool& threads);

  std::int64_t in() const override { return layout_.in; }
  std::int64_t out() const override { return out_; }
  std::size_t bytes() const override { return memory_.bytes; }

  DType dtype() const { return layout_.dtype; }
  const PanelLayout& layout() const { return layout_; }
  std::int64_t panels() const { return (out_ + kPanel - 1) / kPanel; }
  /// 64-byte aligned.
  const std::byte* panel(std::int64_t p) const { return memory_.data + p * panel_bytes_; }
  /// The `in` weights of one output.
  void read_output(std::int64_t output, float* to) const {
    unpack_output(layout_, panel(output / kPanel), output % kPanel, to);
  }

 private:
  void fill_by_inputs(const MatrixSource& source, ThreadPool& threads);
  void fill_by_outputs(const MatrixSource& source, ThreadPool& threads);
  std::byte* tile(std::int64_t panel, std::int64_t tile) {
    return memory_.data + panel * panel_bytes_ + tile * tile_bytes_;
  }

  PanelLayout layout_;
  std::int64_t out_, tile_bytes_, panel_bytes_;
  ArenaSpan memory_;
};

}  // namespace shardlm
