// What the ranks of a job compare before they start, so that no two run different models.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <type_traits>

#include "io/checkpoint.h"

namespace shardlm {

/// 64-bit FNV-1a hashes; small enough to send to every rank. Equal digests do not prove equal
/// weights: of the data only samples are read, so that a rank need not read what it does not keep.
struct ModelDigest {
  std::uint64_t config = 0;        ///< config.json and generation_config.json
  std::uint64_t tokenizer = 0;     ///< the tokenizer's files, those that exist
  std::uint64_t tensor_table = 0;  ///< per tensor: name, dtype, shape, file name, offset
  std::uint64_t file_bytes = 0;    ///< total size of the weight files
  std::uint64_t samples = 0;       ///< 64 blocks of 4 KiB, evenly spread over all weight data

  bool operator==(const ModelDigest&) const = default;
};
static_assert(std::is_trivially_copyable_v<ModelDigest>);

/// Error(model_files) for a file that exists and cannot be read, or that changed since it was
/// opened. A file that does not exist counts as absent, which is part of the digest. Where the
/// folder stands does not matter.
ModelDigest digest_model(const std::filesystem::path& dir, const Checkpoint& checkpoint);

/// The first part in which two digests differ: "config", "tokenizer", "tensor table", "file size",
/// "sampled data"; empty if they are equal.
std::string first_difference(const ModelDigest& a, const ModelDigest& b);

}  // namespace shardlm
