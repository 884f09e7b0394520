#include "tests/gpu/emulation/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#include "tests/gpu/emulation/sanitizers.h"
#if defined(SHARDLM_EMU_ASAN)
#include <sanitizer/common_interface_defs.h>
#endif

#if defined(SHARDLM_EMU_ASSEMBLY)
// Saves what a call preserves on the old stack and takes it from the new one. The first switch to
// a fiber "returns" to the entry below, with begin and its argument in r13 and r12.
extern "C" void shardlm_emu_switch(void** save_stack_pointer, void* to_stack_pointer);
extern "C" void shardlm_emu_entry();
asm(R"(
.text
.globl shardlm_emu_switch
.type shardlm_emu_switch,@function
shardlm_emu_switch:
  pushq %rbp
  pushq %rbx
  pushq %r12
  pushq %r13
  pushq %r14
  pushq %r15
  movq %rsp, (%rdi)
  movq %rsi, %rsp
  popq %r15
  popq %r14
  popq %r13
  popq %r12
  popq %rbx
  popq %rbp
  ret
.size shardlm_emu_switch,.-shardlm_emu_switch
.globl shardlm_emu_entry
.type shardlm_emu_entry,@function
shardlm_emu_entry:
  movq %r12, %rdi
  subq $8, %rsp
  call *%r13
  ud2
.size shardlm_emu_entry,.-shardlm_emu_entry
)");
#endif

namespace shardlm::emu {

Fiber::Fiber(Entry entry, std::size_t bytes) : entry_(entry), size_(bytes) {
  const auto page = static_cast<std::size_t>(sysconf(_SC_PAGESIZE));
  map_bytes_ = bytes + page;
  map_ = mmap(nullptr, map_bytes_, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK,
              -1, 0);
  if (map_ == MAP_FAILED) throw std::bad_alloc();
  mprotect(map_, page, PROT_NONE);  // an overflow faults instead of corrupting
  bottom_ = static_cast<char*>(map_) + page;
#if defined(SHARDLM_EMU_TSAN)
  tsan_ = __tsan_create_fiber(0);
#endif
  prepare();
}

Fiber::~Fiber() {
  if (map_ == nullptr) return;
#if defined(SHARDLM_EMU_TSAN)
  __tsan_destroy_fiber(tsan_);
#endif
#if defined(SHARDLM_EMU_ASAN)
  ASAN_UNPOISON_MEMORY_REGION(map_, map_bytes_);  // left by frames that were abandoned
#endif
  munmap(map_, map_bytes_);
}

void Fiber::adopt() {
#if defined(SHARDLM_EMU_TSAN)
  tsan_ = __tsan_get_current_fiber();
#endif
}

void Fiber::release_from([[maybe_unused]] void* token) {
#if defined(SHARDLM_EMU_TSAN)
  void* caller = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(tsan_, __tsan_switch_to_fiber_no_sync);
  __tsan_release(token);
  __tsan_switch_to_fiber(caller, __tsan_switch_to_fiber_no_sync);
#endif
}

void Fiber::prepare() {
#if defined(SHARDLM_EMU_ASSEMBLY)
  const auto top =
      (reinterpret_cast<std::uintptr_t>(map_) + map_bytes_) & ~static_cast<std::uintptr_t>(15);
  auto** stack = reinterpret_cast<void**>(top) - 8;  // r15 r14 r13 r12 rbx rbp, return address, 0
  for (int i = 0; i < 8; ++i) stack[i] = nullptr;
  stack[2] = reinterpret_cast<void*>(&Fiber::begin);
  stack[3] = this;
  stack[6] = reinterpret_cast<void*>(&shardlm_emu_entry);
  context_ = stack;
#else
  getcontext(&context_);
  context_.uc_stack.ss_sp = const_cast<void*>(bottom_);
  context_.uc_stack.ss_size = size_;
  context_.uc_link = nullptr;
  const auto address = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&context_, reinterpret_cast<void (*)()>(&trampoline), 2,
              static_cast<unsigned>(address >> 32), static_cast<unsigned>(address));
#endif
}

void Fiber::switch_to(Fiber& to) {
  target_ = &to;
  to.from_ = this;
#if defined(SHARDLM_EMU_ASAN)
  __sanitizer_start_switch_fiber(&fake_stack_, to.bottom_, to.size_);
#endif
#if defined(SHARDLM_EMU_TSAN)
  __tsan_switch_to_fiber(to.tsan_, __tsan_switch_to_fiber_no_sync);
#endif
#if defined(SHARDLM_EMU_ASSEMBLY)
  shardlm_emu_switch(&context_, to.context_);
#else
  swapcontext(&context_, &to.context_);
#endif
#if defined(SHARDLM_EMU_ASAN)
  __sanitizer_finish_switch_fiber(fake_stack_, &from_->bottom_, &from_->size_);
#endif
}

void Fiber::begin(Fiber* self) {
#if defined(SHARDLM_EMU_ASAN)
  __sanitizer_finish_switch_fiber(nullptr, &self->from_->bottom_, &self->from_->size_);
#endif
  self->entry_(self);
  __builtin_unreachable();
}

#if !defined(SHARDLM_EMU_ASSEMBLY)
void Fiber::trampoline(unsigned high, unsigned low) {
  begin(reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 | low));
}
#endif

}  // namespace shardlm::emu
