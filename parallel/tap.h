// Where the activations of a forward pass can be listened to (shardlm dump). Layers report under
// the names of docs/cli.md; who listens puts the logical tensor together from all ranks.
#pragma once

#include <string_view>

#include "backend/tensor.h"
#include "parallel/partition.h"

namespace shardlm {

class Tap {
 public:
  virtual ~Tap() = default;
  /// False: nobody listens, and layers may fuse what they would have to show apart.
  virtual bool listening() const { return false; }
  /// An activation that every rank holds in full.
  virtual void replicated(std::string_view /*name*/, const Tensor& /*x*/) {}
  /// This rank's columns of an activation: `unit` columns for each unit of the partition.
  virtual void sharded(std::string_view /*name*/, const Tensor& /*x*/, const Partition& /*p*/,
                       std::int64_t /*unit*/) {}
};

}  // namespace shardlm
