#include "backend/cpu/weight_arena.h"

#include <algorithm>
#include <cstdint>
#include <fstream>
#include <string>

namespace shardlm {
namespace {

constexpr std::size_t kPieceBytes = std::size_t{256} << 20;  // address space, not memory
constexpr std::size_t kAlignment = 64;

}  // namespace

ArenaSpan WeightArena::take(std::size_t bytes) {
  if (bytes == 0) return {};
  const std::size_t rounded = (bytes + kAlignment - 1) / kAlignment * kAlignment;
  if (!current_ || current_->bytes() - used_ < rounded) {
    current_ = std::make_shared<const MappedMemory>(std::max(rounded, kPieceBytes), "the weights");
    used_ = 0;
    std::erase_if(pieces_, [](const auto& piece) { return piece.expired(); });
    pieces_.push_back(current_);
  }
  std::byte* const data = current_->data() + used_;
  used_ += rounded;
  taken_ += bytes;
  return {data, bytes, current_};
}

std::size_t WeightArena::huge_bytes() const {
  std::size_t total = 0;
  for (const auto& weak : pieces_) {
    if (const auto piece = weak.lock()) total += huge_page_bytes(piece->data(), piece->bytes());
  }
  return total;
}

// A mapping's lines: "7f12a0000000-7f12b0000000 rw-p …" and, below it, "AnonHugePages:   2048 kB".
std::size_t huge_page_bytes(const std::byte* data, std::size_t bytes) {
  const auto begin = reinterpret_cast<std::uintptr_t>(data);
  std::ifstream maps("/proc/self/smaps");
  std::string line;
  bool inside = false;
  std::size_t total = 0;
  while (std::getline(maps, line)) {
    unsigned long long from = 0, to = 0;
    unsigned long kilobytes = 0;
    if (std::sscanf(line.c_str(), "%llx-%llx ", &from, &to) == 2) {
      inside = from < begin + bytes && begin < to;
    } else if (inside && std::sscanf(line.c_str(), "AnonHugePages: %lu kB", &kilobytes) == 1) {
      total += std::size_t{kilobytes} << 10;
    }
  }
  return total;
}

}  // namespace shardlm
