// Memory for packed weights: few large pieces in huge pages, whatever the size of the matrices.
#pragma once

#include <cstddef>
#include <memory>
#include <vector>

#include "backend/cpu/mapped_memory.h"

namespace shardlm {

/// What matrices hold of it: as long as anybody does, its piece stays mapped.
struct ArenaSpan {
  std::byte* data = nullptr;
  std::size_t bytes = 0;
  std::shared_ptr<const MappedMemory> piece = {};
};

/// Hands out 64-byte aligned spans of zeros, one after another. Reading weights from 2 MiB pages is
/// up to 1.4 times faster than from 4 KiB pages, and the system gives huge pages only to whole
/// aligned 2 MiB: matrices below that would get none. Pages exist from first use on, near the core
/// of the thread that writes them first.
class WeightArena {
 public:
  ArenaSpan take(std::size_t bytes);

  std::size_t bytes() const { return taken_; }
  /// Bytes that stand in huge pages now, of all pieces; none if the system does not tell.
  std::size_t huge_bytes() const;

 private:
  std::vector<std::weak_ptr<const MappedMemory>> pieces_;
  std::shared_ptr<const MappedMemory> current_;
  std::size_t used_ = 0;   // of the current piece
  std::size_t taken_ = 0;  // of all
};

/// Bytes of [data, data + bytes) in transparent huge pages, by the sizes that the system tells of
/// its mappings (/proc/self/smaps). 0 where there is no such file.
std::size_t huge_page_bytes(const std::byte* data, std::size_t bytes);

}  // namespace shardlm
