#include "backend/cpu/packed_matrix.h"

#include <algorithm>
#include <vector>

#include "base/error.h"

namespace shardlm {
namespace {

constexpr const char* kPurpose = "a weight matrix";
constexpr std::int64_t kPanel = PackedMatrix::kPanel;
constexpr std::int64_t kTileInputs = PanelLayout::kInputs;
using Tile = std::vector<float>;  // [32 inputs][64 outputs]

/// Tells the source which rows are done, a few megabytes at a time: giving pages back is a call to
/// the system that all threads feel.
class DoneRows {
 public:
  DoneRows(const MatrixSource& source, std::int64_t first) : source_(source), first_(first) {}
  ~DoneRows() { tell(); }
  DoneRows(const DoneRows&) = delete;
  DoneRows& operator=(const DoneRows&) = delete;

  void up_to(std::int64_t end) {
    end_ = end;
    const std::int64_t row = source_.rows_are_outputs ? source_.in : source_.out;
    if ((end_ - first_) * row >= kElements) tell();
  }

 private:
  static constexpr std::int64_t kElements = std::int64_t{1} << 20;

  void tell() {
    if (source_.done_with_rows && end_ > first_) source_.done_with_rows(first_, end_);
    first_ = end_;
  }

  const MatrixSource& source_;
  std::int64_t first_, end_ = 0;
};

std::size_t packed_bytes(const PanelLayout& layout, std::int64_t out) {
  check(layout.in >= 0 && out >= 0, "a weight matrix has no negative size");
  constexpr std::int64_t kMost = std::int64_t{1} << 48;
  const std::size_t panel =
      layout.in > kMost ? checked_product(SIZE_MAX, 2, kPurpose) : layout.panel_bytes();
  return checked_product(static_cast<std::size_t>((out + kPanel - 1) / kPanel), panel, kPurpose);
}

// Two threads that meet in a new huge page would both clear one, and one of the two be thrown away:
// so each first writes to pages of its own.
void touch_pages(const ArenaSpan& memory, ThreadPool& threads) {
  constexpr std::size_t kHugePage = std::size_t{2} << 20;
  const std::size_t before = reinterpret_cast<std::uintptr_t>(memory.data) % kHugePage;
  const auto pages = static_cast<std::int64_t>((before + memory.bytes + kHugePage - 1) / kHugePage);
  threads.parallel_for(pages, 1, [&](std::int64_t begin, std::int64_t end, int /*worker*/) {
    for (std::int64_t page = begin; page < end; ++page) {
      const std::size_t at = static_cast<std::size_t>(page) * kHugePage;
      *const_cast<volatile std::byte*>(memory.data + (at < before ? 0 : at - before)) =
          std::byte{0};
    }
  });
}

}  // namespace

PackedMatrix::PackedMatrix(const MatrixSource& source, DType dtype, WeightArena& arena,
                           ThreadPool& threads)
    : layout_{dtype, source.in},
      out_(source.out),
      tile_bytes_(static_cast<std::int64_t>(layout_.tile_bytes())),
      panel_bytes_(static_cast<std::int64_t>(layout_.panel_bytes())),
      memory_(arena.take(packed_bytes(layout_, source.out))) {
  if (in() == 0 || out_ == 0) return;
  touch_pages(memory_, threads);
  if (source.rows_are_outputs) {
    fill_by_outputs(source, threads);
  } else {
    fill_by_inputs(source, threads);
  }
}

// A part of the work is a tile's inputs, for all panels.
void PackedMatrix::fill_by_inputs(const MatrixSource& source, ThreadPool& threads) {
  threads.parallel_for(layout_.tiles(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t width = panels() * kPanel;
    std::vector<float> rows(static_cast<std::size_t>(kTileInputs * width));
    Tile tile(static_cast<std::size_t>(kTileInputs * kPanel));
    DoneRows done(source, begin * kTileInputs);
    for (std::int64_t t = begin; t < end; ++t) {
      const std::int64_t inputs = std::min(kTileInputs, in() - t * kTileInputs);
      if (inputs < kTileInputs) std::ranges::fill(rows, 0.0F);
      for (std::int64_t k = 0; k < inputs; ++k) {
        source.read_row(t * kTileInputs + k,
                        {rows.data() + k * width, static_cast<std::size_t>(out_)});
      }
      for (std::int64_t p = 0; p < panels(); ++p) {
        for (std::int64_t k = 0; k < kTileInputs; ++k) {
          std::copy_n(rows.data() + k * width + p * kPanel, kPanel, tile.data() + k * kPanel);
        }
        pack_tile(dtype(), tile.data(), inputs, this->tile(p, t));
      }
      done.up_to(t * kTileInputs + inputs);
    }
  });
}

// A part of the work is a panel.
void PackedMatrix::fill_by_outputs(const MatrixSource& source, ThreadPool& threads) {
  threads.parallel_for(panels(), 1, [&](std::int64_t begin, std::int64_t end, int) {
    const std::int64_t length = layout_.tiles() * kTileInputs;
    std::vector<float> rows(static_cast<std::size_t>(kPanel * length));
    Tile tile(static_cast<std::size_t>(kTileInputs * kPanel));
    DoneRows done(source, begin * kPanel);
    for (std::int64_t p = begin; p < end; ++p) {
      const std::int64_t outputs = std::min(kPanel, out_ - p * kPanel);
      if (outputs < kPanel) std::ranges::fill(rows, 0.0F);
      for (std::int64_t j = 0; j < outputs; ++j) {
        source.read_row(p * kPanel + j, {rows.data() + j * length, static_cast<std::size_t>(in())});
      }
      for (std::int64_t t = 0; t < layout_.tiles(); ++t) {
        const std::int64_t first = t * kTileInputs;
        for (std::int64_t k = 0; k < kTileInputs; ++k) {
          for (std::int64_t j = 0; j < kPanel; ++j) {
            tile[static_cast<std::size_t>(k * kPanel + j)] =
                rows[static_cast<std::size_t>(j * length + first + k)];
          }
        }
        pack_tile(dtype(), tile.data(), std::min(kTileInputs, in() - first), this->tile(p, t));
      }
      done.up_to(p * kPanel + outputs);
    }
  });
}

}  // namespace shardlm
