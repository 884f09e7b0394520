// All weight files of a model folder as one table of tensors.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_tensor.h"
#include "io/safetensors.h"

namespace shardlm {

/// Opens `model.safetensors` or, if the folder has none, the shards that
/// `model.safetensors.index.json` names. Only headers are read; tensor data when someone asks.
///
/// The index must fit its shards, else Error(model_files):
/// - a shard is a plain file name, of a file in the same folder, and none may be missing;
/// - each tensor of `weight_map` is in the shard that it names;
/// - no tensor is in two shards (transformers would keep whichever it loads last).
/// A tensor that a shard holds and `weight_map` does not name is loaded, as transformers does, and
/// named in a warning: nothing is dropped unseen. A wrong `total_size` is only warned of.
///
/// Which tensors a model needs or leaves unused is for the model to say, not for this class.
class Checkpoint {
 public:
  static Checkpoint open(const std::filesystem::path& model_dir);

  /// None if there is no tensor of that name. The pointer is good as long as the Checkpoint, moved
  /// or not.
  const HostTensor* find(std::string_view name) const;
  const std::vector<const HostTensor*>& tensors() const { return by_name_; }  ///< sorted by name
  const std::vector<std::string>& warnings() const { return warnings_; }  ///< for rank 0 to print
  const std::vector<SafetensorsFile>& files() const { return files_; }    ///< sorted by name
  std::uint64_t file_bytes() const;  ///< of all weight files, headers included

  /// Error(model_files) if a file was changed in place since open(): to be asked after the load.
  void check_unchanged() const;

 private:
  void open_sharded(const std::filesystem::path& index);
  void collect();

  std::vector<SafetensorsFile> files_;
  std::vector<const HostTensor*> by_name_;
  std::vector<std::string> warnings_;
};

}  // namespace shardlm
