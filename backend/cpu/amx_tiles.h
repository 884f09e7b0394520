// The matrix tiles of AMX as instructions. Only for functions marked SHARDLM_AMX and called where
// amx_support() allows it. Inline assembly, because GCC's functions for them (12 and older) do not
// tell the compiler which memory they touch.
#pragma once

#include <array>
#include <cstdint>

#include "backend/cpu/amx_shapes.h"

#if defined(__x86_64__) && defined(__GNUC__)
#define SHARDLM_HAS_AMX_TILES 1
#define SHARDLM_AMX __attribute__((target("amx-tile,amx-int8,amx-bf16")))
#define SHARDLM_AMX_INLINE SHARDLM_AMX __attribute__((always_inline)) inline

namespace shardlm {

/// The processor's eight tiles, configured while it lives. One at a time in a thread. A tile's
/// number is a part of an instruction, hence the template parameters.
class AmxTiles {
 public:
  SHARDLM_AMX_INLINE explicit AmxTiles(const AmxShapes& shapes) {
    const AmxConfig config(shapes);
    // All 64 bytes are an operand, so that none of the stores to them is dropped.
    asm volatile("ldtilecfg %0" ::"m"(config) : "memory");
  }
  SHARDLM_AMX_INLINE ~AmxTiles() { asm volatile("tilerelease" ::: "memory"); }
  AmxTiles(const AmxTiles&) = delete;
  AmxTiles& operator=(const AmxTiles&) = delete;

  template <int kTile>
  SHARDLM_AMX_INLINE void zero() {
    asm volatile("tilezero %%tmm%c0" ::"i"(kTile));
  }
  /// Row r from `from` + r * stride (bytes).
  template <int kTile>
  SHARDLM_AMX_INLINE void load(const void* from, std::int64_t stride) {
    asm volatile("tileloadd (%0,%1,1), %%tmm%c2" ::"r"(from), "r"(stride), "i"(kTile) : "memory");
  }
  template <int kTile>
  SHARDLM_AMX_INLINE void store(void* to, std::int64_t stride) {
    asm volatile("tilestored %%tmm%c2, (%0,%1,1)" ::"r"(to), "r"(stride), "i"(kTile) : "memory");
  }
  /// Floats += pairs of bfloat16 in the rows of a times pairs in the columns of b.
  template <int kSum, int kA, int kB>
  SHARDLM_AMX_INLINE void dot_bf16() {
    asm volatile("tdpbf16ps %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
  }
  /// Whole numbers of 32 bits += fours of signed bytes in the rows of a times fours in b.
  template <int kSum, int kA, int kB>
  SHARDLM_AMX_INLINE void dot_int8() {
    asm volatile("tdpbssd %%tmm%c2, %%tmm%c1, %%tmm%c0" ::"i"(kSum), "i"(kA), "i"(kB));
  }
};

}  // namespace shardlm
#endif
