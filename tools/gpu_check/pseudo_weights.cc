#include "tools/gpu_check/pseudo_weights.h"

#include <sys/mman.h>
#include <unistd.h>

#include <algorithm>
#include <span>
#include <utility>

#include "base/error.h"
#include "base/philox.h"

namespace shardlm::gpu_check {
namespace {

constexpr std::size_t kPeriod = std::size_t{4} << 20;  // bytes; whole pages
constexpr std::size_t kAlignment = 64;
constexpr float kSpread = 0.02F;  // standard deviation, as GPT-2 is initialised

[[noreturn]] void fail_memory(const char* doing) {
  fail(ExitCode::resources, {.what = std::string("cannot make weights: ") + doing});
}

/// A file in memory that is gone with its last mapping.
class MemoryFile {
 public:
  MemoryFile() : file_(memfd_create("weights", MFD_CLOEXEC)) {
    if (file_ < 0 || ftruncate(file_, kPeriod) != 0) fail_memory("no file in memory");
  }
  ~MemoryFile() {
    if (file_ >= 0) close(file_);
  }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;
  int get() const { return file_; }

 private:
  int file_;
};

// Uniform, of standard deviation kSpread.
std::vector<float> pseudo_random(std::size_t n) {
  constexpr float kRange = kSpread * 1.7320508F;
  std::vector<float> values;
  values.reserve(n + 4);
  for (std::uint32_t block = 0; values.size() < n; ++block) {
    for (const std::uint32_t word : philox4x32_10({block, 0, 0, 0}, {1, 0})) {
      values.push_back((static_cast<float>(word >> 8) * 0x1p-23F - 1) * kRange);
    }
  }
  values.resize(n);
  return values;
}

std::size_t element_bytes(DType dtype) { return bits(dtype) / 8; }

std::int64_t elements_of(const std::vector<std::int64_t>& shape) {
  std::int64_t n = 1;
  for (const std::int64_t d : shape) n *= d;
  return n;
}

// Where in the period a tensor begins: elsewhere for each name.
std::size_t offset_of(const std::string& name) {
  std::uint32_t hash = 2166136261U;  // FNV-1a
  for (const char c : name) hash = (hash ^ static_cast<unsigned char>(c)) * 16777619U;
  return hash % (kPeriod / kAlignment) * kAlignment;
}

}  // namespace

PseudoWeights::PseudoWeights(DType dtype, std::int64_t most_elements) : dtype_(dtype) {
  const std::size_t most_bytes = static_cast<std::size_t>(most_elements) * element_bytes(dtype);
  mapped_bytes_ = (most_bytes / kPeriod + 2) * kPeriod;
  const MemoryFile file;
  void* const range =
      mmap(nullptr, mapped_bytes_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
  if (range == MAP_FAILED) fail_memory("no address space");
  mapped_ = static_cast<std::byte*>(range);
  for (std::size_t at = 0; at < mapped_bytes_; at += kPeriod) {
    const bool writable = at == 0;
    if (mmap(mapped_ + at, kPeriod, writable ? PROT_READ | PROT_WRITE : PROT_READ,
             MAP_SHARED | MAP_FIXED, file.get(), 0) == MAP_FAILED) {
      munmap(mapped_, mapped_bytes_);
      fail_memory("too many mappings");
    }
  }
  from_float32(dtype, pseudo_random(kPeriod / element_bytes(dtype)), {mapped_, kPeriod});
}

PseudoWeights::~PseudoWeights() { munmap(mapped_, mapped_bytes_); }

HostTensor PseudoWeights::matrix(const std::string& name,
                                 const std::vector<std::int64_t>& shape) const {
  const std::size_t bytes = static_cast<std::size_t>(elements_of(shape)) * element_bytes(dtype_);
  const std::size_t offset = offset_of(name);
  check(offset + bytes <= mapped_bytes_, "a tensor larger than the largest that was announced");
  return {.name = name,
          .dtype = dtype_,
          .shape = shape,
          .bytes = {mapped_ + offset, bytes},
          .file = "pseudo-random"};
}

HostTensor PseudoWeights::vector(const std::string& name, const std::vector<std::int64_t>& shape) {
  std::vector<float>& values = vectors_[name];
  values.assign(static_cast<std::size_t>(elements_of(shape)),
                name.ends_with(".weight") ? 1.0F : 0.0F);
  return {.name = name,
          .dtype = DType::f32,
          .shape = shape,
          .bytes = std::as_bytes(std::span(values)),
          .file = "constant"};
}

HostTensor PseudoWeights::tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
  return shape.size() == 1 ? vector(name, shape) : matrix(name, shape);
}

HostMatrix PseudoWeights::linear(const std::string& name, std::int64_t in, std::int64_t out) {
  return {.tensor = matrix(name, {in, out}), .in = in, .out = out, .rows_are_outputs = false};
}

}  // namespace shardlm::gpu_check
