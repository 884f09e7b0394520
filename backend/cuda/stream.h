// The one stream of a back end, and how the host waits for it.
#pragma once

#include <cuda_runtime_api.h>

#include <memory>

namespace shardlm::cuda {

/// Asked again and again while the host waits for the device: who has work of other ranks in the
/// stream (a communicator) looks whether it can still end, and throws if not.
class StreamWatch {
 public:
  virtual ~StreamWatch() = default;
  virtual void while_waiting(double waited_s) = 0;
};

struct EventDeleter {
  void operator()(cudaEvent_t event) const { cudaEventDestroy(event); }
};
using Event = std::unique_ptr<CUevent_st, EventDeleter>;
/// An event without timing, or with.
Event make_event(bool timing = false);

class Stream {
 public:
  Stream();
  ~Stream();
  Stream(const Stream&) = delete;
  Stream& operator=(const Stream&) = delete;

  cudaStream_t get() const { return stream_; }

  /// Until all that was enqueued so far is done. Polls: a kernel that waits for a rank that never
  /// comes would hold a blocking wait for ever.
  void wait() const;
  /// Until the event has happened.
  void wait(const Event& event) const;

  /// At most one watch at a time; null: none.
  void set_watch(StreamWatch* watch) { watch_ = watch; }

 private:
  template <class Query>
  void poll(Query&& query) const;

  cudaStream_t stream_ = nullptr;
  StreamWatch* watch_ = nullptr;
};

}  // namespace shardlm::cuda
