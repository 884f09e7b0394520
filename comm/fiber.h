// A stack of its own on the caller's thread, left and continued by name.
#pragma once

#include <ucontext.h>

#include <cstddef>
#include <functional>
#include <memory>

namespace shardlm {

class Fiber {
 public:
  /// `body` begins with the first resume() and must not throw.
  explicit Fiber(std::function<void()> body);
  ~Fiber();
  Fiber(const Fiber&) = delete;
  Fiber& operator=(const Fiber&) = delete;

  /// Continues the body until it suspends or ends. From outside of it.
  void resume();
  /// Goes back to whoever resumed. From inside the body.
  void suspend();
  bool done() const { return done_; }

 private:
  static void enter(unsigned high, unsigned low);
  void leave(bool for_ever);
  void arrived();

  std::function<void()> body_;
  std::byte* stack_ = nullptr;
  ucontext_t inside_{}, outside_{};
  bool done_ = false;
  // What the sanitizers are told about the stacks.
  void* inside_shadow_ = nullptr;
  void* outside_shadow_ = nullptr;
  const void* outside_bottom_ = nullptr;
  std::size_t outside_size_ = 0;
  void* inside_name_ = nullptr;
  void* outside_name_ = nullptr;
};

}  // namespace shardlm
