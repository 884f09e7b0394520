// Where layers get their weights: by name, stating the shape they expect. A layer is shown the
// full tensor (bytes of a mapped file) and reads only its own shard of it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/host_tensor.h"

namespace shardlm {

/// A linear layer's weight as the file holds it: [in, out], or [out, in] if rows_are_outputs.
struct HostMatrix {
  HostTensor tensor;
  std::int64_t in = 0, out = 0;
  bool rows_are_outputs = false;
  bool vocabulary = false;  ///< a table with a row for each token id
};

class WeightSource {
 public:
  virtual ~WeightSource() = default;

  /// The tensor `name` of exactly this shape and a float dtype; Error(model_files) otherwise.
  virtual HostTensor tensor(const std::string& name, const std::vector<std::int64_t>& shape) = 0;
  /// The weight of a linear layer, in whichever orientation the checkpoint keeps.
  virtual HostMatrix linear(const std::string& name, std::int64_t in, std::int64_t out) = 0;

  /// A layer will not read these elements of the tensor again: what a file's mapping holds of them
  /// in memory may go. From any thread.
  virtual void done_with(const HostTensor& /*tensor*/, std::int64_t /*first*/,
                         std::int64_t /*count*/) {}

  /// Layers report what they took: `elements` of the tensor, now held as `kept`.
  void took(const HostTensor& from, std::int64_t elements, DType kept) {
    bytes_read_ += stored_bytes(from.dtype, static_cast<std::uint64_t>(elements));
    bytes_kept_ += stored_bytes(kept, static_cast<std::uint64_t>(elements));
  }
  std::uint64_t bytes_read() const { return bytes_read_; }
  std::uint64_t bytes_kept() const { return bytes_kept_; }

 private:
  std::uint64_t bytes_read_ = 0, bytes_kept_ = 0;
};

}  // namespace shardlm
