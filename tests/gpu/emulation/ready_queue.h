// Which thread of the block runs next.
#pragma once

#include <algorithm>
#include <cstddef>
#include <numeric>
#include <random>
#include <utility>
#include <vector>

#include "tests/gpu/emulation/engine.h"

namespace shardlm::emu {

/// The ready threads of one block, by number, in a ring of fixed size.
class ReadyQueue {
 public:
  /// All of 0 .. n-1 are ready, in the order of the options.
  void fill(int n, std::mt19937& random) {
    random_ = &random;
    order_ = options().order;
    ring_.resize(static_cast<std::size_t>(n));
    std::iota(ring_.begin(), ring_.end(), 0);
    if (order_ == Order::reverse) std::reverse(ring_.begin(), ring_.end());
    if (order_ == Order::shuffled) std::shuffle(ring_.begin(), ring_.end(), random);
    head_ = 0;
    count_ = ring_.size();
  }

  bool empty() const { return count_ == 0; }
  void push(int thread) { at(count_++) = thread; }
  /// For a thread that only lets others run: it comes after all of them.
  void push_last(int thread) {
    if (order_ != Order::reverse) return push(thread);
    head_ = (head_ + ring_.size() - 1) % ring_.size();
    ring_[head_] = thread;
    ++count_;
  }

  /// The next thread, or -1.
  int pop() {
    if (count_ == 0) return -1;
    if (order_ == Order::reverse) return at(--count_);  // whoever woke last
    if (order_ == Order::shuffled) std::swap(at(0), at((*random_)() % count_));
    const int thread = ring_[head_];
    head_ = (head_ + 1) % ring_.size();
    --count_;
    return thread;
  }

 private:
  int& at(std::size_t i) { return ring_[(head_ + i) % ring_.size()]; }

  std::vector<int> ring_;
  std::size_t head_ = 0, count_ = 0;
  Order order_ = Order::forward;
  std::mt19937* random_ = nullptr;
};

}  // namespace shardlm::emu
