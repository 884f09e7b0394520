#include "backend/cpu/kv_storage.h"

#include "base/error.h"

namespace shardlm {
namespace {

constexpr const char* kPurpose = "the KV cache";
constexpr std::size_t kAlignment = 64;  // a cache line, and the widest vector

std::size_t round_up(std::size_t n, std::size_t multiple) {
  return (n + multiple - 1) / multiple * multiple;
}

void check_type(DType type) {
  if (type == DType::f32 || type == DType::bf16 || type == DType::f16 || type == DType::i8) return;
  fail(ExitCode::usage, {.what = "the type of the KV cache",
                         .expected = "F32, BF16, F16 or I8",
                         .found = std::string(name(type)),
                         .remedy = "choose one of these"});
}

}  // namespace

CpuKvStorage::CpuKvStorage(std::int64_t n_head, std::int64_t head_dim, std::int64_t n_blocks,
                           std::int64_t block_tokens, DType type)
    : n_head_(n_head), n_blocks_(n_blocks) {
  check(n_head >= 0 && head_dim >= 0 && n_blocks >= 0, "KV storage: a negative size");
  check(block_tokens > 0 && block_tokens % kTokenGroup == 0,
        "KV storage: tokens of a block must be a multiple of 16");
  check_type(type);
  const auto tokens = static_cast<std::size_t>(block_tokens);
  const std::size_t dim = static_cast<std::size_t>(head_dim), element = bits(type) / 8;
  const std::size_t stride = round_up(dim, static_cast<std::size_t>(kTokenGroup));
  std::size_t at = checked_product(checked_product(tokens, element, kPurpose), dim, kPurpose);
  const auto place = [&at](std::size_t bytes) {  // and where the piece before it ended
    const std::size_t start = round_up(at, kAlignment);
    at = start + bytes;
    return static_cast<std::int64_t>(start);
  };
  const std::size_t scales = type == DType::i8 ? tokens * sizeof(float) : 0;
  layout_.values_at =
      place(checked_product(checked_product(tokens, element, kPurpose), stride, kPurpose));
  layout_.key_scales_at = place(scales);
  layout_.value_scales_at = place(scales);
  const std::size_t part = round_up(at, kAlignment);
  const std::size_t block = checked_product(part, static_cast<std::size_t>(n_head), kPurpose);
  part_bytes_ = static_cast<std::int64_t>(part);
  const std::size_t bytes = checked_product(block, static_cast<std::size_t>(n_blocks), kPurpose);
  memory_ = MappedMemory(dim == 0 ? 0 : bytes, kPurpose);
  layout_.part = memory_.bytes() == 0 ? nullptr : reinterpret_cast<std::byte*>(memory_.floats());
  layout_.block_bytes = static_cast<std::int64_t>(block);
  layout_.block_tokens = block_tokens;
  layout_.head_dim = head_dim;
  layout_.value_stride = static_cast<std::int64_t>(stride);
  layout_.type = type;
}

HeadCache CpuKvStorage::head(std::int64_t head, std::span<const std::int32_t> blocks) const {
  HeadCache found = layout_;
  found.part += head * part_bytes_;
  found.blocks = blocks;
  return found;
}

}  // namespace shardlm
