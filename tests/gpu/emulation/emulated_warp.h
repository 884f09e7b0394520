// Barriers and warp primitives. All of the latter are one operation of the engine: every lane
// deposits its value and sees those of all.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <type_traits>

#include "tests/gpu/emulation/emulated_keywords.h"
#include "tests/gpu/emulation/engine.h"

namespace shardlm::emu {

template <class T>
T unpack(const std::uint64_t (&words)[2]) {
  T value;
  std::memcpy(&value, words, sizeof(T));
  return value;
}

template <class T>
const Gathered& gather_values(unsigned mask, const T& value, Site site) {
  static_assert(std::is_trivially_copyable_v<T> && sizeof(T) <= 16);
  std::uint64_t words[2] = {0, 0};
  std::memcpy(words, &value, sizeof(T));
  return gather(mask, words[0], words[1], false, site);
}

template <class T>
T shuffle(unsigned mask, const T& value, int source, Site site) {
  const Gathered& all = gather_values(mask, value, site);
  if ((all.present >> source & 1U) == 0) fail("shuffle reads a lane that did not take part", site);
  return unpack<T>(all.value[source]);
}

/// The first lane of this lane's group of `width` lanes.
inline int group_start(int width) { return current->lane & ~(width - 1); }

/// Folds the values of all lanes that take part, in lane order.
template <class T, class F>
T reduce_lanes(unsigned mask, T value, F fold, Site site) {
  const Gathered& all = gather_values(mask, value, site);
  bool first = true;
  T result{};
  for (int lane = 0; lane < 32; ++lane)
    if ((all.present >> lane & 1U) != 0) {
      const T v = unpack<T>(all.value[lane]);
      result = first ? v : fold(result, v);
      first = false;
    }
  return result;
}

}  // namespace shardlm::emu

inline void __syncthreads(shardlm::emu::Site s = shardlm::emu::Site::current()) {
  shardlm::emu::sync_block(s);
}
inline int __syncthreads_count(int p, shardlm::emu::Site s = shardlm::emu::Site::current()) {
  return shardlm::emu::sync_block_count(p, s);
}
inline int __syncthreads_or(int p, shardlm::emu::Site s = shardlm::emu::Site::current()) {
  return shardlm::emu::sync_block_count(p, s) != 0;
}
inline int __syncthreads_and(int p, shardlm::emu::Site s = shardlm::emu::Site::current()) {
  return shardlm::emu::sync_block_count(p == 0, s) == 0;
}
inline void __syncwarp(unsigned mask = ~0U, shardlm::emu::Site s = shardlm::emu::Site::current()) {
  shardlm::emu::gather(mask, 0, 0, true, s);
}
inline unsigned __activemask() { return shardlm::emu::live_lanes(); }

template <class T>
T __shfl_sync(unsigned mask, T value, int source, int width = 32,
              shardlm::emu::Site s = shardlm::emu::Site::current()) {
  return shardlm::emu::shuffle(mask, value,
                               shardlm::emu::group_start(width) | (source & (width - 1)), s);
}
template <class T>
T __shfl_xor_sync(unsigned mask, T value, int bits, int width = 32,
                  shardlm::emu::Site s = shardlm::emu::Site::current()) {
  const int lane = shardlm::emu::current->lane, from = lane ^ bits;
  const bool inside = (from & ~(width - 1)) <= shardlm::emu::group_start(width);
  return shardlm::emu::shuffle(mask, value, inside ? from : lane, s);
}
template <class T>
T __shfl_down_sync(unsigned mask, T value, unsigned delta, int width = 32,
                   shardlm::emu::Site s = shardlm::emu::Site::current()) {
  const int lane = shardlm::emu::current->lane, d = static_cast<int>(delta);
  const bool inside = (lane & (width - 1)) + d < width;
  return shardlm::emu::shuffle(mask, value, inside ? lane + d : lane, s);
}
template <class T>
T __shfl_up_sync(unsigned mask, T value, unsigned delta, int width = 32,
                 shardlm::emu::Site s = shardlm::emu::Site::current()) {
  const int lane = shardlm::emu::current->lane, d = static_cast<int>(delta);
  const bool inside = (lane & (width - 1)) >= d;
  return shardlm::emu::shuffle(mask, value, inside ? lane - d : lane, s);
}

inline unsigned __ballot_sync(unsigned mask, int predicate,
                              shardlm::emu::Site s = shardlm::emu::Site::current()) {
  const unsigned mine = predicate != 0 ? 1U << shardlm::emu::current->lane : 0U;
  return shardlm::emu::reduce_lanes(
      mask, mine, [](unsigned a, unsigned b) { return a | b; }, s);
}
inline int __any_sync(unsigned mask, int predicate,
                      shardlm::emu::Site s = shardlm::emu::Site::current()) {
  return __ballot_sync(mask, predicate, s) != 0;
}
inline int __all_sync(unsigned mask, int predicate,
                      shardlm::emu::Site s = shardlm::emu::Site::current()) {
  return __ballot_sync(mask, predicate == 0, s) == 0;
}
template <class T>
unsigned __match_any_sync(unsigned mask, T value,
                          shardlm::emu::Site s = shardlm::emu::Site::current()) {
  const shardlm::emu::Gathered& all = shardlm::emu::gather_values(mask, value, s);
  unsigned same = 0;
  for (int lane = 0; lane < 32; ++lane)
    if ((all.present >> lane & 1U) != 0 &&
        std::memcmp(all.value[lane], all.value[shardlm::emu::current->lane], 16) == 0)
      same |= 1U << lane;
  return same;
}

// int and unsigned only, as on the device (sm_80 and later).
#define SHARDLM_EMU_REDUCE(T, name, expression)                                                 \
  inline T name(unsigned mask, T value, shardlm::emu::Site s = shardlm::emu::Site::current()) { \
    return shardlm::emu::reduce_lanes(                                                          \
        mask, value, [](T a, T b) { return static_cast<T>(expression); }, s);                   \
  }
SHARDLM_EMU_REDUCE(unsigned, __reduce_add_sync, a + b)
SHARDLM_EMU_REDUCE(int, __reduce_add_sync, static_cast<unsigned>(a) + static_cast<unsigned>(b))
SHARDLM_EMU_REDUCE(unsigned, __reduce_min_sync, std::min(a, b))
SHARDLM_EMU_REDUCE(int, __reduce_min_sync, std::min(a, b))
SHARDLM_EMU_REDUCE(unsigned, __reduce_max_sync, std::max(a, b))
SHARDLM_EMU_REDUCE(int, __reduce_max_sync, std::max(a, b))
SHARDLM_EMU_REDUCE(unsigned, __reduce_and_sync, a& b)
SHARDLM_EMU_REDUCE(unsigned, __reduce_or_sync, a | b)
SHARDLM_EMU_REDUCE(unsigned, __reduce_xor_sync, a ^ b)
#undef SHARDLM_EMU_REDUCE
