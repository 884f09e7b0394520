// float32 on the host to any element type on the device, and back, through a bounded piece of
// page-locked memory.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <vector>

#include "backend/cuda/kernels/view.h"
#include "backend/cuda/memory.h"
#include "backend/cuda/stream.h"

namespace shardlm::cuda {

class Transfer {
 public:
  /// Two pieces: one is filled on the host while the other is copied.
  static constexpr std::size_t kPieceBytes = std::size_t{4} << 20;

  explicit Transfer(const Stream& stream) : stream_(stream) {}

  /// Fills the matrix from rows that `read_row` gives, each once and in order. Enqueued: the last
  /// copies may be under way when it returns.
  using ReadRow = std::function<void(std::int64_t row, std::span<float> to)>;
  void upload(const ReadRow& read_row, const MatrixView& to);
  void upload(std::span<const float> from, const MatrixView& to);
  /// Copies bytes as they are.
  void upload_bytes(std::span<const std::byte> from, std::byte* to);
  /// Waits for the device.
  void download(const MatrixView& from, std::span<float> to);

 private:
  struct Piece {
    PinnedBlock memory;
    Event copied;
  };
  Piece& next_piece();

  const Stream& stream_;
  std::array<Piece, 2> pieces_;
  std::size_t turn_ = 0;
  std::vector<float> row_;
};

}  // namespace shardlm::cuda
