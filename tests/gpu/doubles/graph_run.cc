#include "tests/gpu/doubles/graph_run.h"

#include <utility>

#include "tests/gpu/doubles/runtime.h"
#include "tests/gpu/emulation/engine.h"
#include "tests/gpu/emulation/sanitizers.h"

namespace shardlm::doubles {
namespace {

constexpr std::size_t kStackBytes = 256 * 1024;

}  // namespace

GraphRun::GraphRun(std::vector<Node> nodes)
    : nodes_(std::move(nodes)),
      followers_(nodes_.size()),
      random_(emu::options().seed),
      fibers_(nodes_.size()),
      tokens_(nodes_.size()) {
  for (std::size_t i = 0; i < nodes_.size(); ++i)
    for (const int before : nodes_[i].after)
      followers_[static_cast<std::size_t>(before)].push_back(static_cast<int>(i));
}

void GraphRun::run(int device, const std::vector<std::shared_ptr<Completion>>& events) {
  device_ = device;
  events_ = &events;
  base_.adopt();
  emu::release(&start_token_);
  std::vector<std::size_t> missing(nodes_.size()), ready;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    missing[i] = nodes_[i].after.size();
    if (missing[i] == 0) ready.push_back(i);
  }
  while (!ready.empty()) {
    std::swap(ready[random_() % ready.size()], ready.back());
    const std::size_t node = ready.back();
    ready.pop_back();
    if (emu::kThreadSanitizer) {
      run_on_fiber(node);
    } else {
      run_node(node);
    }
    for (const int next : followers_[node])
      if (--missing[static_cast<std::size_t>(next)] == 0)
        ready.push_back(static_cast<std::size_t>(next));
  }
  for (char& token : tokens_) emu::acquire(&token);
}

void GraphRun::run_on_fiber(std::size_t node) {
  NodeFiber& f = fibers_[node];
  if (f.fiber == nullptr) {
    f.run = this;
    f.node = node;
    f.fiber = std::make_unique<emu::Fiber>(&GraphRun::fiber_main, kStackBytes);
    f.fiber->user = &f;
    emu::release(&start_token_);  // the lines above come before the fiber's first
  }
  base_.switch_to(*f.fiber);
}

void GraphRun::fiber_main(emu::Fiber* self) {
  for (;;) {
    {
      const emu::Quiet quiet;  // what the base tells a fiber, it tells it through no edge
      NodeFiber& f = *static_cast<NodeFiber*>(self->user);
      emu::acquire(&f.run->start_token_);
    }
    NodeFiber& f = *static_cast<NodeFiber*>(self->user);
    f.run->run_node(f.node);
    self->switch_to(f.run->base_);
  }
}

void GraphRun::run_node(std::size_t node) {
  const Node& n = nodes_[node];
  for (const int before : n.after) emu::acquire(&tokens_[static_cast<std::size_t>(before)]);
  const auto& event = (*events_)[node];
  if (n.records != nullptr) {
    event->set();
  } else if (n.waits != nullptr) {
    if (event != nullptr) event->wait();
  } else {
    run_guarded(device_, n.name, n.work);
  }
  emu::release(&tokens_[node]);
}

}  // namespace shardlm::doubles
