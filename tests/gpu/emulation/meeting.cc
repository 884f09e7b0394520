// Where threads of a block meet: its barrier, and the warp primitives.
#include <cstdlib>
#include <cstring>
#include <string>

#include "tests/gpu/emulation/worker.h"

namespace shardlm::emu {
namespace {

bool same_place(const Site& a, const Site& b) {
  return a.line() == b.line() && std::strcmp(a.file_name(), b.file_name()) == 0;
}

// SHARDLM_EMU_REMOVE_BARRIER=FILE:LINE runs the kernels as if the barrier of that line were
// not there (FILE: the end of its path): how tests/gpu/mutation_check.py tests the tests.
bool is_removed(const Site& site) {
  static const std::string removed = [] {
    const char* text = std::getenv("SHARDLM_EMU_REMOVE_BARRIER");
    return std::string(text == nullptr ? "" : text);
  }();
  if (removed.empty()) return false;
  const std::string here = std::string("/") + site.file_name() + ":" + std::to_string(site.line());
  return here.ends_with("/" + removed);
}

}  // namespace

void Worker::sync_block(Site site) {
  if (is_removed(site)) return;
  if (arrived_ == 0) {
    barrier_site_ = site;
  } else if (!same_place(barrier_site_, site)) {
    fail("__syncthreads: threads of the block wait at different source lines", site);
  }
  ++arrived_;
  char* token = &barrier_token_[barrier_generation_ & 1];
  release(token);
  if (arrived_ == live_) {
    open_barrier();
  } else {
    suspend(Waiting::barrier, site);
  }
  acquire(token);
}

int Worker::sync_block_count(int predicate, Site site) {
  if (is_removed(site)) return predicate != 0 ? 1 : 0;
  predicates_ += predicate != 0 ? 1 : 0;
  sync_block(site);
  const int count = predicates_;
  sync_block(site);  // all have read it
  predicates_ = 0;
  sync_block(site);  // it is zero before anybody counts again
  return count;
}

void Worker::open_barrier() {
  arrived_ = 0;
  ++barrier_generation_;
  for (Thread& t : threads_)
    if (t.waiting == Waiting::barrier) {
      t.waiting = Waiting::no;
      ready_.push(t.linear);
    }
}

GatherPoint& Worker::point_of(Warp& warp, unsigned mask, int lane, Site site) {
  if ((mask >> lane & 1U) == 0) fail("warp primitive: the mask lacks the calling lane", site);
  GatherPoint* point = nullptr;
  for (auto& p : warp.points)
    if (p->mask == mask) point = p.get();
  if (point == nullptr) {
    warp.points.push_back(std::make_unique<GatherPoint>());
    point = warp.points.back().get();
    point->mask = mask;
  }
  if (point->arrived == 0) {
    point->site = site;
    point->buffer[point->generation & 3].present = 0;
  } else if (!same_place(point->site, site)) {
    fail("warp primitive: lanes of one mask meet at different source lines", site);
  }
  return *point;
}

const Gathered& Worker::gather(unsigned mask, std::uint64_t low, std::uint64_t high, bool fence,
                               Site site) {
  Thread& me = self();
  Warp& warp = warp_of(me);
  GatherPoint& point = point_of(warp, mask, me.lane, site);
  const unsigned generation = point.generation;
  Gathered& result = point.buffer[generation & 3];
  result.value[me.lane][0] = low;
  result.value[me.lane][1] = high;
  result.present |= 1U << me.lane;
  point.arrived |= 1U << me.lane;
  char* token = &point.token[generation & 1];
  if (fence) release(token);
  if (point.arrived == (mask & warp.live)) {
    complete(point, me.warp, me.lane);
  } else {
    suspend(Waiting::warp, site);
  }
  if (fence) acquire(token);
  return result;
}

void Worker::complete(GatherPoint& point, int warp, int except_lane) {
  const unsigned woken = point.arrived;
  point.arrived = 0;
  ++point.generation;
  for (int lane = 0; lane < 32; ++lane)
    if (lane != except_lane && (woken >> lane & 1U) != 0) {
      Thread& t = threads_[static_cast<std::size_t>(warp * 32 + lane)];
      t.waiting = Waiting::no;
      ready_.push(t.linear);
    }
}

}  // namespace shardlm::emu
