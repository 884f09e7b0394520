// A tensor of a checkpoint: a view of bytes that someone else keeps mapped.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"

namespace shardlm {

struct HostTensor {
  std::string name;
  DType dtype = DType::f32;
  std::vector<std::int64_t> shape;   ///< row-major
  std::span<const std::byte> bytes;  ///< no alignment promised
  std::string file;                  ///< for messages

  std::int64_t elements() const;
  /// Elements [first, first + to.size()) in row-major order, as float32. A dtype that is not a
  /// float is an Error(model_files) naming file and tensor; a range outside the tensor a bug.
  void read(std::int64_t first, std::span<float> to) const;
};

/// "[4, 12]"
std::string shape_text(std::span<const std::int64_t> shape);

}  // namespace shardlm
