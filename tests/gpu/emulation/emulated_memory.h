// Loads, stores, asynchronous copies, flags and clocks: what backend/cuda/gpu.h wraps PTX for, and
// the loads and stores with cache hints, which are plain ones here.
#pragma once

#include <sched.h>

#include <atomic>
#include <chrono>
#include <cstdint>
#include <cstring>

#include "tests/gpu/emulation/emulated_keywords.h"
#include "tests/gpu/emulation/engine.h"

namespace shardlm::emu {

inline void require_aligned(const void* p, std::size_t bytes, const char* what, Site site) {
  if (reinterpret_cast<std::uintptr_t>(p) % bytes != 0) fail(what, site);
}

/// cp.async of 16 bytes, of which the first `bytes` come from memory and the others are zero.
inline void cp_async_16(void* shared, const void* global, unsigned bytes, Site site) {
  require_aligned(shared, 16, "cp.async: the destination is not aligned to 16 bytes", site);
  require_aligned(global, 16, "cp.async: the source is not aligned to 16 bytes", site);
  if (bytes > 16) fail("cp.async: more than 16 bytes", site);
  pending_copies().back().push_back({shared, global, bytes, 16 - bytes});
}
inline void cp_async_commit() { pending_copies().emplace_back(); }

/// Performs the copies of all committed groups but the newest `keep`.
inline void cp_async_wait(std::size_t keep) {
  auto& groups = pending_copies();
  while (groups.size() > keep + 1) {  // + 1: the open group
    for (const PendingCopy& c : groups.front()) {
      std::memcpy(c.to, c.from, c.bytes);
      std::memset(static_cast<char*>(c.to) + c.bytes, 0, c.zeros);
    }
    groups.erase(groups.begin());
  }
}

template <class T>
void store_release(T* p, T v) {
  std::atomic_ref<T>(*p).store(v, std::memory_order_release);
}
template <class T>
T load_acquire(const T* p) {
  return std::atomic_ref<T>(const_cast<T&>(*p)).load(std::memory_order_acquire);
}

/// What a loop that waits for another block, rank or the host does between two looks.
inline void spin_pause() {
  yield_thread();
  sched_yield();
}

/// Nanoseconds, as %globaltimer: counted from another moment than any clock of the host.
inline std::uint64_t global_timer() {
  constexpr std::uint64_t kOtherEpoch = 1'000'000'000'000'000ULL;
  const auto now = std::chrono::steady_clock::now().time_since_epoch();
  return kOtherEpoch + static_cast<std::uint64_t>(
                           std::chrono::duration_cast<std::chrono::nanoseconds>(now).count());
}

/// 16 bytes at once, which the hardware does from aligned addresses only.
inline uint4 load_16(const void* p, Site site) {
  require_aligned(p, 16, "a load of 16 bytes from an address that is not aligned to them", site);
  uint4 v;
  std::memcpy(&v, p, 16);
  return v;
}
inline void store_16(void* p, const uint4& v, Site site) {
  require_aligned(p, 16, "a store of 16 bytes to an address that is not aligned to them", site);
  std::memcpy(p, &v, 16);
}

}  // namespace shardlm::emu

template <class T>
T __ldg(const T* p) {
  return *p;
}
template <class T>
T __ldcg(const T* p) {
  return *p;
}
template <class T>
T __ldcs(const T* p) {
  return *p;
}
template <class T>
void __stcg(T* p, T v) {
  *p = v;
}
template <class T>
void __stcs(T* p, T v) {
  *p = v;
}

inline void __nanosleep(unsigned) { shardlm::emu::spin_pause(); }
inline long long clock64() { return static_cast<long long>(shardlm::emu::global_timer()); }
[[noreturn]] inline void __trap(shardlm::emu::Site s = shardlm::emu::Site::current()) {
  shardlm::emu::fail("__trap", s);
}
