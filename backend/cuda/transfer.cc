#include "backend/cuda/transfer.h"

#include <algorithm>
#include <cstring>
#include <vector>

#include "backend/cuda/check.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

std::size_t element_bytes(const MatrixView& m) { return bits(m.dtype) / 8; }

/// A part of a matrix that fits a piece: whole rows, or columns of one row.
struct Tile {
  std::int64_t row, rows, col, cols;
};

template <class Visit>
void for_each_tile(const MatrixView& m, std::size_t tile_bytes, Visit&& visit) {
  if (m.rows == 0 || m.cols == 0) return;
  const auto room = static_cast<std::int64_t>(tile_bytes / element_bytes(m));
  const std::int64_t cols_at_once = std::min(m.cols, room);
  const std::int64_t rows_at_once = m.cols <= room ? room / m.cols : 1;
  for (std::int64_t row = 0; row < m.rows; row += rows_at_once) {
    for (std::int64_t col = 0; col < m.cols; col += cols_at_once) {
      visit(Tile{row, std::min(rows_at_once, m.rows - row), col,
                 std::min(cols_at_once, m.cols - col)});
    }
  }
}

std::byte* address(const MatrixView& m, const Tile& tile) {
  return static_cast<std::byte*>(m.data) +
         static_cast<std::size_t>(tile.row * m.stride + tile.col) * element_bytes(m);
}

void copy_tile(const MatrixView& m, const Tile& tile, std::byte* host, cudaMemcpyKind kind,
               cudaStream_t stream) {
  const std::size_t width = static_cast<std::size_t>(tile.cols) * element_bytes(m);
  const std::size_t pitch = static_cast<std::size_t>(m.stride) * element_bytes(m);
  const auto rows = static_cast<std::size_t>(tile.rows);
  std::byte* device = address(m, tile);
  const bool down = kind == cudaMemcpyDeviceToHost;
  check_cuda(down ? cudaMemcpy2DAsync(host, width, device, pitch, width, rows, kind, stream)
                  : cudaMemcpy2DAsync(device, pitch, host, width, width, rows, kind, stream),
             down ? "copying from the device" : "copying to the device");
}

}  // namespace

// A piece whose last copy is done.
Transfer::Piece& Transfer::next_piece() {
  Piece& piece = pieces_[turn_++ % pieces_.size()];
  if (piece.memory.data() == nullptr) {
    piece.memory = PinnedBlock(kPieceBytes);
    piece.copied = make_event();
  }
  stream_.wait(piece.copied);
  return piece;
}

void Transfer::upload(const ReadRow& read_row, const MatrixView& to) {
  const auto cols = static_cast<std::size_t>(to.cols);
  row_.resize(cols);
  for_each_tile(to, kPieceBytes, [&](const Tile& tile) {
    Piece& piece = next_piece();
    std::byte* at = piece.memory.data();
    for (std::int64_t row = tile.row; row < tile.row + tile.rows; ++row) {
      if (tile.col == 0) read_row(row, row_);
      const auto n = static_cast<std::size_t>(tile.cols);
      const std::size_t bytes = n * element_bytes(to);
      from_float32(to.dtype, std::span(row_).subspan(static_cast<std::size_t>(tile.col), n),
                   {at, bytes});
      at += bytes;
    }
    copy_tile(to, tile, piece.memory.data(), cudaMemcpyHostToDevice, stream_.get());
    check_cuda(cudaEventRecord(piece.copied.get(), stream_.get()), "recording an event");
  });
}

void Transfer::upload(std::span<const float> from, const MatrixView& to) {
  check(std::ssize(from) == to.rows * to.cols, "upload: as many floats as the tensor holds");
  const auto cols = static_cast<std::size_t>(to.cols);
  upload(
      [&](std::int64_t row, std::span<float> out) {
        std::copy_n(from.data() + static_cast<std::size_t>(row) * cols, cols, out.data());
      },
      to);
}

void Transfer::upload_bytes(std::span<const std::byte> from, std::byte* to) {
  for (std::size_t at = 0; at < from.size(); at += kPieceBytes) {
    Piece& piece = next_piece();
    const std::size_t n = std::min(kPieceBytes, from.size() - at);
    std::memcpy(piece.memory.data(), from.data() + at, n);
    check_cuda(
        cudaMemcpyAsync(to + at, piece.memory.data(), n, cudaMemcpyHostToDevice, stream_.get()),
        "copying to the device");
    check_cuda(cudaEventRecord(piece.copied.get(), stream_.get()), "recording an event");
  }
}

void Transfer::download(const MatrixView& from, std::span<float> to) {
  check(std::ssize(to) == from.rows * from.cols, "download: as many floats as the tensor holds");
  for_each_tile(from, kPieceBytes, [&](const Tile& tile) {
    Piece& piece = next_piece();
    copy_tile(from, tile, piece.memory.data(), cudaMemcpyDeviceToHost, stream_.get());
    stream_.wait();
    const auto n = static_cast<std::size_t>(tile.rows * tile.cols);
    const auto at = static_cast<std::size_t>(tile.row * from.cols + tile.col);
    to_float32(from.dtype, {piece.memory.data(), n * element_bytes(from)}, to.subspan(at, n));
  });
}

}  // namespace shardlm::cuda
