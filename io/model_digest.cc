#include "io/model_digest.h"

#include <algorithm>
#include <initializer_list>
#include <span>
#include <string_view>

#include "io/mapped_file.h"

namespace shardlm {
namespace {

namespace fs = std::filesystem;

constexpr std::uint64_t kBlocks = 64;
constexpr std::uint64_t kBlockBytes = 4096;

// FNV-1a, 64 bits (Fowler, Noll, Vo). Fields of variable length go in with their length, so that
// no two lists of fields make the same bytes.
class Hash {
 public:
  void bytes(std::span<const std::byte> data) {
    for (const std::byte b : data) {
      value_ = (value_ ^ std::to_integer<std::uint64_t>(b)) * 0x100000001b3U;
    }
  }
  void number(std::uint64_t value) { bytes(std::as_bytes(std::span(&value, 1))); }
  void text(std::string_view text) {
    number(text.size());
    bytes(std::as_bytes(std::span(text)));
  }
  std::uint64_t value() const { return value_; }

 private:
  std::uint64_t value_ = 0xcbf29ce484222325U;
};

std::uint64_t hash_files(const fs::path& dir, std::initializer_list<const char*> names) {
  Hash hash;
  for (const char* name : names) {
    std::error_code error;
    if (!fs::exists(fs::symlink_status(dir / name, error))) continue;
    const MappedFile file(dir / name);
    hash.text(name);
    hash.number(file.bytes().size());
    hash.bytes(file.bytes());
  }
  return hash.value();
}

std::uint64_t hash_tensor_table(const Checkpoint& checkpoint) {
  Hash hash;
  for (const SafetensorsFile& file : checkpoint.files()) {
    hash.text(fs::path(file.path()).filename().string());
    hash.number(file.tensors().size());
    for (const HostTensor& tensor : file.tensors()) {
      hash.text(tensor.name);
      hash.text(name(tensor.dtype));
      hash.number(tensor.shape.size());
      for (const std::int64_t dim : tensor.shape) hash.number(static_cast<std::uint64_t>(dim));
      hash.number(static_cast<std::uint64_t>(tensor.bytes.data() - file.data().data()));
    }
  }
  return hash.value();
}

// Bytes [begin, begin + length) of the data of all files, one after another.
void hash_data(Hash& hash, const Checkpoint& checkpoint, std::uint64_t begin,
               std::uint64_t length) {
  for (const SafetensorsFile& file : checkpoint.files()) {
    const std::uint64_t size = file.data().size();
    if (begin >= size) {
      begin -= size;
      continue;
    }
    const std::uint64_t here = std::min(length, size - begin);
    hash.bytes(file.data().subspan(begin, here));
    begin = 0;
    length -= here;
  }
}

std::uint64_t hash_samples(const Checkpoint& checkpoint) {
  std::uint64_t total = 0;
  for (const SafetensorsFile& file : checkpoint.files()) total += file.data().size();
  Hash hash;
  if (total <= kBlocks * kBlockBytes) {
    hash_data(hash, checkpoint, 0, total);
    return hash.value();
  }
  // The first block starts the data, the last one ends them.
  const std::uint64_t last = total - kBlockBytes, gaps = kBlocks - 1;
  for (std::uint64_t i = 0; i < kBlocks; ++i) {
    hash_data(hash, checkpoint, last / gaps * i + last % gaps * i / gaps, kBlockBytes);
  }
  return hash.value();
}

}  // namespace

ModelDigest digest_model(const fs::path& dir, const Checkpoint& checkpoint) {
  checkpoint.check_unchanged();
  return {
      .config = hash_files(dir, {"config.json", "generation_config.json"}),
      .tokenizer =
          hash_files(dir, {"vocab.json", "merges.txt", "tokenizer.json", "tokenizer_config.json",
                           "added_tokens.json", "special_tokens_map.json"}),
      .tensor_table = hash_tensor_table(checkpoint),
      .file_bytes = checkpoint.file_bytes(),
      .samples = hash_samples(checkpoint),
  };
}

std::string first_difference(const ModelDigest& a, const ModelDigest& b) {
  if (a.config != b.config) return "config";
  if (a.tokenizer != b.tokenizer) return "tokenizer";
  if (a.tensor_table != b.tensor_table) return "tensor table";
  if (a.file_bytes != b.file_bytes) return "file size";
  if (a.samples != b.samples) return "sampled data";
  return "";
}

}  // namespace shardlm
