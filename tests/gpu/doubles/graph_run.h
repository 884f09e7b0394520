// Running a captured graph: any order that its edges allow, another one each time, so that a
// missing edge shows.
#pragma once

#include <memory>
#include <random>
#include <vector>

#include "tests/gpu/doubles/stream.h"
#include "tests/gpu/emulation/fiber.h"

namespace shardlm::doubles {

class GraphRun {
 public:
  explicit GraphRun(std::vector<Node> nodes);

  const std::vector<Node>& nodes() const { return nodes_; }
  /// On a stream's thread. `events` are, by node, the records that this launch makes or waits for.
  void run(int device, const std::vector<std::shared_ptr<Completion>>& events);

 private:
  // Under ThreadSanitizer a node is a thread of its own, which only the graph's edges order.
  struct NodeFiber {
    GraphRun* run = nullptr;
    std::size_t node = 0;
    std::unique_ptr<emu::Fiber> fiber;
  };
  static void fiber_main(emu::Fiber* self);
  void run_on_fiber(std::size_t node);
  void run_node(std::size_t node);

  std::vector<Node> nodes_;
  std::vector<std::vector<int>> followers_;
  std::mt19937 random_;
  std::vector<NodeFiber> fibers_;
  std::vector<char> tokens_;  // by node: it is done
  char start_token_ = 0;
  emu::Fiber base_;
  // Of the launch that now runs.
  int device_ = 0;
  const std::vector<std::shared_ptr<Completion>>* events_ = nullptr;
};

}  // namespace shardlm::doubles
