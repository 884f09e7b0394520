// The safetensors format: 8 bytes length N (little-endian), N bytes JSON, then the data.
// Reference: the "Format" section of github.com/huggingface/safetensors.
#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/host_tensor.h"
#include "io/mapped_file.h"

namespace shardlm {

/// The header's length limit of the reference implementation.
inline constexpr std::uint64_t kMaxSafetensorsHeader = 100'000'000;

/// One file, wholly checked before anything of it is used: the tensors' byte ranges lie in the
/// file, cover all of its data, do not overlap, and agree with dtype and shape. What is refused is
/// an Error(model_files) that names the file and the tensor or key. Two rules are stricter than the
/// reference reader's: the first byte of the header must be '{' (so says its README), and no key
/// may stand twice in an object. A tensor of a dtype that we do not compute with is accepted here
/// and refused when it is read (HostTensor::read). NaN and Inf are values like others.
class SafetensorsFile {
 public:
  static SafetensorsFile open(const std::filesystem::path& path);
  /// A view of `bytes`, which must outlive the result; `file_name` stands in messages.
  static SafetensorsFile parse(std::span<const std::byte> bytes, std::string file_name);

  const std::string& path() const { return path_; }
  /// In the order of their data.
  const std::vector<HostTensor>& tensors() const { return tensors_; }
  const std::map<std::string, std::string>& metadata() const { return metadata_; }
  std::string_view header() const { return header_; }        ///< the JSON text, padding included
  std::span<const std::byte> data() const { return data_; }  ///< all that follows the header
  std::uint64_t file_bytes() const { return 8 + header_.size() + data_.size(); }

  /// See MappedFile; nothing to check after parse().
  void check_unchanged() const;

 private:
  std::string path_;
  std::optional<MappedFile> mapping_;
  std::string_view header_;
  std::span<const std::byte> data_;
  std::vector<HostTensor> tensors_;
  std::map<std::string, std::string> metadata_;
};

}  // namespace shardlm
