// One fiber: a stack of its own, entered and left by name. x86-64 switches in twelve instructions
// of ours; elsewhere ucontext does it (a system call a switch, five times slower).
#pragma once

#include <cstddef>
#if defined(__x86_64__) && !defined(SHARDLM_EMU_UCONTEXT)
#define SHARDLM_EMU_ASSEMBLY 1
#else
#include <ucontext.h>
#endif

namespace shardlm::emu {

class Fiber {
 public:
  using Entry = void (*)(Fiber*);

  Fiber() = default;  ///< the calling thread itself, once adopt() has been called
  /// A fiber that will run entry(this), which must never return, on a stack of `bytes`.
  Fiber(Entry entry, std::size_t bytes);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// This fiber is the thread that now runs (and, under ThreadSanitizer, whatever it runs as).
  void adopt();
  /// Leaves *this, the running fiber, and continues `to`; returns when *this is continued.
  void switch_to(Fiber& to);
  /// For ThreadSanitizer: what this suspended fiber did comes before whoever acquires the token.
  /// For fibers that will not be continued.
  void release_from(void* token);

  void* user = nullptr;  ///< the owner's

 private:
  void prepare();
  static void begin(Fiber* self);
#if defined(SHARDLM_EMU_ASSEMBLY)
  void* context_ = nullptr;  // the saved stack pointer
#else
  static void trampoline(unsigned high, unsigned low);
  ucontext_t context_{};
#endif
  Entry entry_ = nullptr;
  Fiber* target_ = nullptr;
  Fiber* from_ = nullptr;
  void* map_ = nullptr;
  std::size_t map_bytes_ = 0;
  // What AddressSanitizer and ThreadSanitizer are told about the stack.
  const void* bottom_ = nullptr;
  std::size_t size_ = 0;
  void* fake_stack_ = nullptr;
  void* tsan_ = nullptr;
};

}  // namespace shardlm::emu
