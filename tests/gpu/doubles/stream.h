// Streams and events of the CUDA runtime's double. A stream is a thread of its own, so that a
// missing event wait is a real race: the queues order nothing that CUDA does not order, as far as
// ThreadSanitizer can see.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>

#include "tests/gpu/emulation/sanitizers.h"

namespace shardlm::doubles {

/// Something that is done once, and when: the end of a piece of work.
class Completion {
 public:
  void set();
  void wait();
  bool ready();
  /// Only after ready().
  std::chrono::steady_clock::time_point at() const { return at_; }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  bool done_ = false;
  std::chrono::steady_clock::time_point at_;
};

/// The graph that a stream is captured into. Indices are those of nodes.
struct Node {
  std::string name;
  std::function<void()> work;
  std::vector<int> after;
  std::shared_ptr<void> lease;
  cudaEvent_t records = nullptr, waits = nullptr;  ///< an external event, instead of work
};
struct Capture {
  std::vector<Node> nodes;
  cudaStreamCaptureMode mode = cudaStreamCaptureModeGlobal;
  const void* thread = nullptr;  ///< who began it
  bool invalid = false;
};

/// The thread of one stream, and what it still has to do.
class WorkQueue : public std::enable_shared_from_this<WorkQueue> {
 public:
  void start();
  void push(std::function<void()> work);
  /// All that was pushed is done, and what it held is let go.
  bool idle();
  /// Until all that has been pushed by now is done.
  void wait();
  /// The thread ends when it has done all that was pushed. Does not wait for that.
  void finish();

 private:
  struct Work {
    std::function<void()> run;
  };
  void run();

  std::mutex mutex_;
  std::condition_variable changed_;
  std::deque<std::unique_ptr<Work>> queue_;
  std::uint64_t pushed_ = 0, finished_ = 0;
  bool stop_ = false;
  char done_token_ = 0;
};

}  // namespace shardlm::doubles

struct CUstream_st {
  int device = 0, priority = 0;
  unsigned flags = 0;
  std::shared_ptr<shardlm::doubles::WorkQueue> queue;
  // While it is being captured:
  std::shared_ptr<shardlm::doubles::Capture> capture;
  bool origin = false;
  std::vector<int> tail;  // the nodes that the next captured one comes after
};

struct CUevent_st {
  int device = 0;
  bool timing = true;
  std::shared_ptr<shardlm::doubles::Completion> last;  // of the newest record
  // While its newest record is in a capture:
  std::weak_ptr<shardlm::doubles::Capture> capture;
  bool captured = false;
  std::vector<int> at;
};
