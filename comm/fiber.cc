#include "comm/fiber.h"

#include <sys/mman.h>
#include <unistd.h>

#include <cstdint>
#include <new>

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/common_interface_defs.h>
#endif
#if defined(__SANITIZE_THREAD__)
#include <sanitizer/tsan_interface.h>
#endif

namespace shardlm {
namespace {

// The algorithms use little, the MPI library below them is not ours. Only touched pages count.
constexpr std::size_t kStackBytes = std::size_t{1} << 20;

std::size_t page_bytes() { return static_cast<std::size_t>(sysconf(_SC_PAGESIZE)); }

}  // namespace

Fiber::Fiber(std::function<void()> body) : body_(std::move(body)) {
  void* const memory = mmap(nullptr, kStackBytes + page_bytes(), PROT_READ | PROT_WRITE,
                            MAP_PRIVATE | MAP_ANONYMOUS | MAP_STACK, -1, 0);
  if (memory == MAP_FAILED) throw std::bad_alloc();
  mprotect(memory, page_bytes(), PROT_NONE);  // an overflow faults instead of corrupting
  stack_ = static_cast<std::byte*>(memory) + page_bytes();
  getcontext(&inside_);
  inside_.uc_stack.ss_sp = stack_;
  inside_.uc_stack.ss_size = kStackBytes;
  inside_.uc_link = nullptr;
  const auto self = reinterpret_cast<std::uintptr_t>(this);
  makecontext(&inside_, reinterpret_cast<void (*)()>(&Fiber::enter), 2,
              static_cast<unsigned>(self >> 32), static_cast<unsigned>(self));
#if defined(__SANITIZE_THREAD__)
  inside_name_ = __tsan_create_fiber(0);
#endif
}

Fiber::~Fiber() {
#if defined(__SANITIZE_THREAD__)
  __tsan_destroy_fiber(inside_name_);
#endif
  munmap(stack_ - page_bytes(), kStackBytes + page_bytes());
}

void Fiber::resume() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(&outside_shadow_, stack_, kStackBytes);
#endif
#if defined(__SANITIZE_THREAD__)
  outside_name_ = __tsan_get_current_fiber();
  __tsan_switch_to_fiber(inside_name_, 0);
#endif
  swapcontext(&outside_, &inside_);
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(outside_shadow_, nullptr, nullptr);
#endif
}

void Fiber::suspend() {
  leave(false);
  arrived();
}

void Fiber::leave([[maybe_unused]] bool for_ever) {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_start_switch_fiber(for_ever ? nullptr : &inside_shadow_, outside_bottom_,
                                 outside_size_);
#endif
#if defined(__SANITIZE_THREAD__)
  __tsan_switch_to_fiber(outside_name_, 0);
#endif
  swapcontext(&inside_, &outside_);
}

void Fiber::arrived() {
#if defined(__SANITIZE_ADDRESS__)
  __sanitizer_finish_switch_fiber(inside_shadow_, &outside_bottom_, &outside_size_);
#endif
}

void Fiber::enter(unsigned high, unsigned low) {
  auto* const self = reinterpret_cast<Fiber*>(static_cast<std::uintptr_t>(high) << 32 |
                                              static_cast<std::uintptr_t>(low));
  self->arrived();
  self->body_();
  self->done_ = true;
  self->leave(true);
}

}  // namespace shardlm
