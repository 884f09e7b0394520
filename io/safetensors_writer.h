// Writes safetensors files.
#pragma once

#include <cstdint>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace shardlm {

struct OutTensor {
  std::string name;                 ///< UTF-8
  std::vector<std::int64_t> shape;  ///< row-major
  std::span<const float> data;      ///< as many as the shape says
};

/// Writes F32 tensors, in the order given: equal input gives equal bytes. The data begin at a
/// multiple of 8. The file appears at `to` complete or not at all: a temporary file in the same
/// folder is written, flushed to disk and renamed over `to`, so that a reader which has the old
/// file mapped keeps it. On failure nothing is left behind.
///
/// Error(usage) if the place cannot be written to, Error(resources) if writing fails (disk full),
/// Error(bug) for a name given twice, not UTF-8 or "__metadata__", and for data that do not fit the
/// shape.
void write_safetensors(const std::filesystem::path& to, std::span<const OutTensor> tensors);

}  // namespace shardlm
