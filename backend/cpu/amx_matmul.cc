#include "backend/cpu/amx_matmul.h"

#include <algorithm>

#include "backend/cpu/amx_tiles.h"
#include "base/error.h"
#if defined(SHARDLM_HAS_AMX_TILES)
#include "backend/cpu/amx_bf16-inl.h"
#include "backend/cpu/amx_int8-inl.h"
#else
#include "backend/cpu/amx_vectors.h"
#endif

namespace shardlm {

void AmxRows::resize(std::int64_t rows, std::int64_t length) {
  rows_ = rows;
  length_ = length;
  // One line more, for the address of the first of none.
  const auto lines = static_cast<std::size_t>(row_tiles() * input_tiles() * kRows) + 1;
  if (lines_.size() < lines) lines_.resize(lines);
}

void AmxRows::fill(const float* x, std::int64_t stride, std::int64_t begin, std::int64_t end) {
  for (std::int64_t t = begin; t < end; ++t) {
    Line* tile = lines_.data() + t * input_tiles() * kRows;
    const std::int64_t rows = std::min(kRows, rows_ - t * kRows);
    for (std::int64_t r = 0; r < rows; ++r) {
      amx_round_row(x + (t * kRows + r) * stride, length_, tile[r].values);
    }
    for (std::int64_t k = 0; k < input_tiles(); ++k) {
      std::fill(tile + k * kRows + rows, tile + (k + 1) * kRows, Line{});
    }
  }
}

bool fits_amx(const QuantisedProduct& product) {
  return product.rows >= kAmxRows && product.first_column % kAmxColumns == 0 &&
         product.columns % kAmxColumns == 0;
}

#if defined(SHARDLM_HAS_AMX_TILES)

void multiply_panel_amx(const AmxProduct& product) { amx::multiply_bf16<AmxTiles>(product); }

void multiply_panel_amx(const QuantisedProduct& product) { amx::multiply_int8<AmxTiles>(product); }

#else

void multiply_panel_amx(const AmxProduct&) { check(false, "AMX on a machine that has it"); }

void multiply_panel_amx(const QuantisedProduct&) { check(false, "AMX on a machine that has it"); }

#endif

}  // namespace shardlm
