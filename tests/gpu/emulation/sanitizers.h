// What the engine and the doubles tell the sanitizers. Both hand work from thread to thread through
// queues of their own: ThreadSanitizer must see the order that CUDA guarantees and no more, or a
// missing barrier or event wait would be hidden by the lock of some queue.
#pragma once

#if defined(SHARDLM_EMU_ASAN)
#include <sanitizer/asan_interface.h>
#endif
#if defined(SHARDLM_EMU_TSAN)
#include <sanitizer/tsan_interface.h>
// Part of ThreadSanitizer's run-time library; its headers do not declare them.
extern "C" void AnnotateIgnoreWritesBegin(const char*, int);
extern "C" void AnnotateIgnoreWritesEnd(const char*, int);
extern "C" void AnnotateIgnoreSyncBegin(const char*, int);
extern "C" void AnnotateIgnoreSyncEnd(const char*, int);
#endif

namespace shardlm::emu {

#if defined(SHARDLM_EMU_TSAN)
inline constexpr bool kThreadSanitizer = true;
/// What happened before release(token) happens before what follows acquire(token).
inline void acquire(void* token) { __tsan_acquire(token); }
inline void release(void* token) { __tsan_release(token); }
inline void quiet_begin() { AnnotateIgnoreWritesBegin(__FILE__, __LINE__); }
inline void quiet_end() { AnnotateIgnoreWritesEnd(__FILE__, __LINE__); }
inline void unordered_begin() { AnnotateIgnoreSyncBegin(__FILE__, __LINE__); }
inline void unordered_end() { AnnotateIgnoreSyncEnd(__FILE__, __LINE__); }
#else
inline constexpr bool kThreadSanitizer = false;
inline void acquire(void*) {}
inline void release(void*) {}
inline void quiet_begin() {}
inline void quiet_end() {}
inline void unordered_begin() {}
inline void unordered_end() {}
#endif

/// In its scope, reads and writes are the test bench's own and no business of the kernel's. (The
/// engine is not instrumented, but the linker may take another file's instrumented copy of an
/// inline std:: function.)
class Quiet {
 public:
  Quiet() { quiet_begin(); }
  ~Quiet() { quiet_end(); }
  Quiet(const Quiet&) = delete;
  Quiet& operator=(const Quiet&) = delete;
};

/// As Quiet; locks and atomics in its scope order nothing either.
class Unordered {
 public:
  Unordered() { unordered_begin(); }
  ~Unordered() { unordered_end(); }
  Unordered(const Unordered&) = delete;
  Unordered& operator=(const Unordered&) = delete;

 private:
  Quiet quiet_;
};

}  // namespace shardlm::emu
