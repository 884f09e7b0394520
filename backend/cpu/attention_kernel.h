// The arithmetic of attention: a few queries of one head over one run of its keys. What a row's
// result is made of depends on the row alone: keys are cut into runs at multiples of 256, each run
// has a softmax of its own (two passes, keys ascending), and the runs are joined in ascending
// order.
#pragma once

#include <cstdint>
#include <span>

#include "backend/cpu/kv_storage.h"

namespace shardlm {

constexpr std::int64_t kRunTokens = 256;  // keys that share one softmax
constexpr std::int64_t kTileRows = 12;    // queries that share the reading of keys and values
constexpr std::int64_t kTileRoom = 16;    // rows that a tile's memory has room for: kernels come in
                                          // few heights, and compute rows that are not there
constexpr std::int64_t kPackedDims = 64;  // see QueryTile::q

/// The softmax of each row over some of its keys: sums [row][stride] of weight times value, the
/// weights' own sum, and the largest score, which the weights are relative to (weight 1).
struct TileState {
  float* sums = nullptr;
  float* totals = nullptr;  ///< [kTileRoom]
  float* tops = nullptr;    ///< [kTileRoom]
  std::int64_t stride = 0;  ///< head_dim rounded up to 16

  static std::int64_t floats(std::int64_t stride) { return kTileRoom * (stride + 2); }
  static TileState at(float* memory, std::int64_t stride) {
    float* totals = memory + kTileRoom * stride;
    return {memory, totals, totals + kTileRoom, stride};
  }
};

/// Queries at consecutive positions of one sequence, in one head.
struct QueryTile {
  HeadCache cache;
  std::int64_t rows = 0;      ///< 1 ... kTileRows
  std::int64_t position = 0;  ///< of the first row, which sees position + 1 keys
  float* q = nullptr;         ///< packed, [dims / 64][kTileRoom][64]: see pack_queries
  float* scores = nullptr;    ///< scratch [kTileRoom][kRunTokens]

  static std::int64_t packed_floats(std::int64_t dim) {
    return (dim + kPackedDims - 1) / kPackedDims * kPackedDims * kTileRoom;
  }
};

/// tile.q = q times scale log2(e): scores are then powers of two. q: [rows][stride].
void pack_queries(const float* q, std::int64_t stride, float scale, const QueryTile& tile);
/// The first row that sees a key of the run that starts at `begin`; tile.rows if none does.
std::int64_t first_row_of_run(const QueryTile& tile, std::int64_t begin);
/// `to` = the softmax over keys [begin, begin + kRunTokens) of the rows that see any of them.
void attend_run(const QueryTile& tile, std::int64_t begin, const TileState& to);
/// `to` = the softmax over both's keys, for rows [first, rows); `run` holds the later ones.
void join_run(const TileState& run, std::int64_t first, std::int64_t rows, const TileState& to);
/// out [rows][out_stride] = sums / total, head_dim columns.
void finish_rows(const TileState& state, const QueryTile& tile, float* out,
                 std::int64_t out_stride);

/// x = 2^x for x <= 0, as the softmax has it: relative error below 2^-23, 0
/// below -125, NaN for NaN. For tests.
void exp2_all(std::span<float> x);

}  // namespace shardlm
