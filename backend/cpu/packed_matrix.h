// A float32 weight matrix in the layout that the matmul kernel streams through.
#pragma once

#include <cstdint>

#include "backend/backend.h"
#include "backend/cpu/mapped_memory.h"
#include "backend/cpu/thread_pool.h"

namespace shardlm {

/// Panels of 64 outputs, one after another: [ceil(out / 64)][in][64], the last one padded with
/// zeros. The same whatever the vector length: a product reads one contiguous stream a panel.
class PackedMatrix final : public WeightMatrix {
 public:
  static constexpr std::int64_t kPanel = 64;

  PackedMatrix(const MatrixSource& source, ThreadPool& threads);

  std::int64_t in() const override { return in_; }
  std::int64_t out() const override { return out_; }
  std::size_t bytes() const override { return memory_.bytes(); }

  std::int64_t panels() const { return (out_ + kPanel - 1) / kPanel; }
  /// [in][64], 64-byte aligned.
  const float* panel(std::int64_t p) const { return memory_.floats() + p * in_ * kPanel; }

 private:
  void fill_by_inputs(const MatrixSource& source, ThreadPool& threads);
  void fill_by_outputs(const MatrixSource& source, ThreadPool& threads);

  std::int64_t in_, out_;
  MappedMemory memory_;
};

}  // namespace shardlm
