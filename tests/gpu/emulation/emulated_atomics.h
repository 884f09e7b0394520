// Atomics and fences. Other blocks may run on other OS threads, and mapped memory is shared with
// the host and with other processes, so they are real ones. Relaxed, as on the device.
#pragma once

#include <atomic>
#include <concepts>
#include <type_traits>

#include "tests/gpu/emulation/engine.h"

namespace shardlm::emu {

/// The types that CUDA has atomics for, of those the project may use.
template <class T>
concept AtomicInteger =
    std::same_as<T, int> || std::same_as<T, unsigned> || std::same_as<T, unsigned long long>;
template <class T>
concept AtomicNumber = AtomicInteger<T> || std::same_as<T, float> || std::same_as<T, double>;

inline constinit std::atomic<unsigned> fence_cell{0};

/// *p = f(*p), atomically; returns what was there.
template <class T, class F>
T atomic_update(T* p, F f) {
  const std::atomic_ref<T> cell(*p);
  T old = cell.load(std::memory_order_relaxed);
  while (!cell.compare_exchange_weak(old, f(old), std::memory_order_relaxed)) {
  }
  return old;
}

}  // namespace shardlm::emu

template <shardlm::emu::AtomicNumber T>
T atomicAdd(T* p, std::type_identity_t<T> v) {
  return shardlm::emu::atomic_update(p, [v](T old) { return static_cast<T>(old + v); });
}
template <class T>
requires std::same_as<T, int> || std::same_as<T, unsigned> T atomicSub(T* p,
                                                                       std::type_identity_t<T> v) {
  return shardlm::emu::atomic_update(p, [v](T old) { return static_cast<T>(old - v); });
}
template <shardlm::emu::AtomicInteger T>
T atomicMax(T* p, std::type_identity_t<T> v) {
  return shardlm::emu::atomic_update(p, [v](T old) { return old < v ? v : old; });
}
template <shardlm::emu::AtomicInteger T>
T atomicMin(T* p, std::type_identity_t<T> v) {
  return shardlm::emu::atomic_update(p, [v](T old) { return v < old ? v : old; });
}
template <shardlm::emu::AtomicInteger T>
T atomicAnd(T* p, std::type_identity_t<T> v) {
  return shardlm::emu::atomic_update(p, [v](T old) { return static_cast<T>(old & v); });
}
template <shardlm::emu::AtomicInteger T>
T atomicOr(T* p, std::type_identity_t<T> v) {
  return shardlm::emu::atomic_update(p, [v](T old) { return static_cast<T>(old | v); });
}
/// The old value, then (old >= limit ? 0 : old + 1): counts blocks and wraps by itself.
inline unsigned atomicInc(unsigned* p, unsigned limit) {
  return shardlm::emu::atomic_update(
      p, [limit](unsigned old) { return old >= limit ? 0U : old + 1U; });
}
template <shardlm::emu::AtomicInteger T>
T atomicCAS(T* p, std::type_identity_t<T> expected, std::type_identity_t<T> v) {
  std::atomic_ref<T>(*p).compare_exchange_strong(expected, v, std::memory_order_relaxed);
  return expected;
}
template <class T>
requires shardlm::emu::AtomicInteger<T> || std::same_as<T, float> T
atomicExch(T* p, std::type_identity_t<T> v) {
  return std::atomic_ref<T>(*p).exchange(v, std::memory_order_relaxed);
}

// A read-modify-write of one cell that all fences share, not std::atomic_thread_fence, which
// ThreadSanitizer does not understand.
inline void __threadfence() { shardlm::emu::fence_cell.fetch_add(1, std::memory_order_seq_cst); }
inline void __threadfence_block() { __threadfence(); }
inline void __threadfence_system() { __threadfence(); }
