#include "tools/gpu_check/golden_pack.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cstring>
#include <fstream>
#include <iterator>
#include <span>
#include <string_view>
#include <utility>

#include "base/error.h"

namespace shardlm::gpu_check {
namespace {

static_assert(std::endian::native == std::endian::little, "the pack is little-endian");

constexpr std::string_view kMagic = "SHLMPACK";
constexpr std::uint32_t kVersion = 1;
constexpr std::uint32_t kMostCases = 64, kMostTensors = 4096, kMostDimensions = 4;
constexpr std::int64_t kMostSize = std::int64_t{1} << 20;  // of anything in a golden model

/// CRC-32 as zlib has it.
std::uint32_t crc32(std::span<const std::byte> bytes) {
  std::uint32_t crc = ~0U;
  for (const std::byte byte : bytes) {
    crc ^= static_cast<std::uint32_t>(byte);
    for (int bit = 0; bit < 8; ++bit) crc = (crc >> 1) ^ ((crc & 1U) != 0 ? 0xEDB88320U : 0U);
  }
  return ~crc;
}

class PackReader {
 public:
  PackReader(std::span<const std::byte> bytes, const std::string& path)
      : bytes_(bytes), path_(path) {}

  void require(bool ok, const std::string& what) const {
    if (ok) return;
    fail(ExitCode::usage, {.what = "not a pack of golden cases: " + what,
                           .where = path_,
                           .remedy = "write it anew with tools/pack_golden.py"});
  }
  template <class T>
  T value(const char* what) {
    T value;
    std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
    return value;
  }
  std::uint32_t count(std::uint32_t most, const char* what) {
    const auto n = value<std::uint32_t>(what);
    require(n <= most, std::string("too many ") + what);
    return n;
  }
  std::int64_t size(std::int64_t least, const char* what) {
    const auto n = value<std::int64_t>(what);
    require(least <= n && n <= kMostSize, std::string("a strange ") + what);
    return n;
  }
  std::string text(const char* what) {
    const std::span<const std::byte> bytes = take(value<std::uint32_t>(what), what);
    return {reinterpret_cast<const char*>(bytes.data()), bytes.size()};
  }
  template <class T>
  std::vector<T> values(const char* what) {
    const std::span<const std::byte> bytes =
        take(std::size_t{value<std::uint32_t>(what)} * sizeof(T), what);
    std::vector<T> values(bytes.size() / sizeof(T));
    if (!values.empty()) std::memcpy(values.data(), bytes.data(), bytes.size());
    return values;
  }
  std::span<const std::byte> take(std::size_t n, const char* what) {
    require(n <= bytes_.size(), std::string("it ends within ") + what);
    const std::span<const std::byte> taken = bytes_.first(n);
    bytes_ = bytes_.subspan(n);
    return taken;
  }
  bool empty() const { return bytes_.empty(); }

 private:
  std::span<const std::byte> bytes_;
  const std::string& path_;
};

Activation activation_of(const std::string& name, const PackReader& pack) {
  constexpr std::array<std::pair<std::string_view, Activation>, 5> kKnown = {{
      {"gelu_new", Activation::gelu_tanh},
      {"gelu", Activation::gelu_erf},
      {"quick_gelu", Activation::gelu_quick},
      {"relu", Activation::relu},
      {"silu", Activation::silu},
  }};
  const auto* const found = std::find_if(kKnown.begin(), kKnown.end(),
                                         [&](const auto& known) { return known.first == name; });
  pack.require(found != kKnown.end(), "unknown activation_function " + name);
  return found->second;
}

ModelConfig read_config(PackReader& pack) {
  ModelConfig config;
  config.family = "gpt2";
  config.n_layer = pack.size(1, "n_layer");
  config.n_embd = pack.size(1, "n_embd");
  config.n_head = pack.size(1, "n_head");
  config.n_inner = pack.size(1, "n_inner");
  config.n_positions = pack.size(1, "n_positions");
  config.vocab_size = pack.size(1, "vocab_size");
  pack.require(config.n_embd % config.n_head == 0, "heads that do not divide n_embd");
  config.layer_norm_epsilon = pack.value<float>("epsilon");
  config.activation = activation_of(pack.text("activation_function"), pack);
  config.scale_attn_weights = pack.value<std::uint8_t>("switches") != 0;
  config.scale_attn_by_inverse_layer_idx = pack.value<std::uint8_t>("switches") != 0;
  config.tie_word_embeddings = pack.value<std::uint8_t>("switches") != 0;
  return config;
}

HostTensor read_tensor(PackReader& pack, const std::string& path) {
  HostTensor tensor;
  tensor.name = pack.text("a tensor's name");
  tensor.file = path;
  std::int64_t elements = 1;
  const std::uint32_t n_dimensions = pack.count(kMostDimensions, "dimensions");
  for (std::uint32_t d = 0; d < n_dimensions; ++d) {
    tensor.shape.push_back(pack.size(0, "dimension"));
    elements *= tensor.shape.back();
    pack.require(elements <= kMostSize, "a tensor too large");
  }
  tensor.bytes = pack.take(static_cast<std::size_t>(elements) * sizeof(float), "a tensor");
  return tensor;
}

void check_ids(const PackReader& pack, const GoldenCase& golden,
               const std::vector<std::int32_t>& ids) {
  pack.require(!ids.empty() && std::ssize(ids) <= golden.config.n_positions, "a strange text");
  for (const std::int32_t id : ids) {
    pack.require(0 <= id && id < golden.config.vocab_size, "an id outside of the vocabulary");
  }
}

GoldenCase read_case(PackReader& pack, const std::string& path) {
  GoldenCase golden;
  golden.name = pack.text("a case's name");
  golden.config = read_config(pack);
  const std::uint32_t n_tensors = pack.count(kMostTensors, "tensors");
  for (std::uint32_t i = 0; i < n_tensors; ++i) {
    HostTensor tensor = read_tensor(pack, path);
    golden.weights[tensor.name] = tensor;
  }
  golden.prompt = pack.values<std::int32_t>("a prompt");
  check_ids(pack, golden, golden.prompt);
  golden.logits = pack.values<float>("logits");
  pack.require(std::ssize(golden.logits) == std::ssize(golden.prompt) * golden.config.vocab_size,
               "logits of another shape");
  const std::uint32_t n_greedy = pack.count(kMostCases, "continuations");
  for (std::uint32_t i = 0; i < n_greedy; ++i) {
    GreedyText text{.prompt = pack.values<std::int32_t>("a prompt"),
                    .ids = pack.values<std::int32_t>("a continuation")};
    check_ids(pack, golden, text.prompt);
    check_ids(pack, golden, text.ids);
    pack.require(std::ssize(text.prompt) + std::ssize(text.ids) <= golden.config.n_positions + 1,
                 "a continuation beyond the context");
    golden.greedy.push_back(std::move(text));
  }
  return golden;
}

std::vector<std::byte> read_file(const std::string& path) {
  std::ifstream file(path, std::ios::binary);
  const std::string text{std::istreambuf_iterator<char>(file), {}};
  if (!file) fail(ExitCode::usage, {.what = "cannot read the golden cases", .where = path});
  const auto bytes = std::as_bytes(std::span(text));
  return {bytes.begin(), bytes.end()};
}

}  // namespace

GoldenPack::GoldenPack(const std::string& path) : bytes_(read_file(path)) {
  PackReader whole(bytes_, path);
  whole.require(bytes_.size() >= sizeof(std::uint32_t), "it is too short");
  const std::size_t body = bytes_.size() - sizeof(std::uint32_t);
  PackReader pack(whole.take(body, "the cases"), path);
  pack.require(whole.value<std::uint32_t>("the checksum") == crc32(std::span(bytes_).first(body)),
               "its checksum is another");
  const auto magic = pack.take(kMagic.size(), "the first bytes");
  pack.require(std::memcmp(magic.data(), kMagic.data(), kMagic.size()) == 0, "other first bytes");
  pack.require(pack.value<std::uint32_t>("the version") == kVersion, "another version");
  const std::uint32_t n_cases = pack.count(kMostCases, "cases");
  for (std::uint32_t i = 0; i < n_cases; ++i) cases_.push_back(read_case(pack, path));
  pack.require(pack.empty(), "bytes after the last case");
}

HostTensor GoldenWeights::tensor(const std::string& name, const std::vector<std::int64_t>& shape) {
  const auto found = golden_.weights.find(name);
  if (found == golden_.weights.end() || found->second.shape != shape) {
    fail(ExitCode::model_files,
         {.what = "tensor " + name + " of case " + golden_.name,
          .expected = shape_text(shape),
          .found = found == golden_.weights.end() ? "none" : shape_text(found->second.shape)});
  }
  return found->second;
}

HostMatrix GoldenWeights::linear(const std::string& name, std::int64_t in, std::int64_t out) {
  return {.tensor = tensor(name, {in, out}), .in = in, .out = out, .rows_are_outputs = false};
}

}  // namespace shardlm::gpu_check
