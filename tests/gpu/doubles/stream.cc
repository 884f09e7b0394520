#include "tests/gpu/doubles/stream.h"

#include <cstdlib>
#include <thread>
#include <utility>

#include "tests/gpu/doubles/doubles.h"
#include "tests/gpu/doubles/runtime.h"

namespace shardlm::doubles {

void Completion::set() {
  emu::release(this);
  const Lock lock(mutex_);
  done_ = true;
  at_ = std::chrono::steady_clock::now();
  changed_.notify_all();
}

void Completion::wait() {
  {
    const emu::Unordered unordered;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this] { return done_; });
  }
  emu::acquire(this);
}

bool Completion::ready() {
  bool done = false;
  {
    const Lock lock(mutex_);
    done = done_;
  }
  if (done) emu::acquire(this);
  return done;
}

void WorkQueue::start() {
  std::thread([self = shared_from_this()] { self->run(); }).detach();
}

void WorkQueue::push(std::function<void()> work) {
  auto entry = std::make_unique<Work>(Work{std::move(work)});
  emu::release(entry.get());  // what the host did before comes before the work
  const Lock lock(mutex_);
  queue_.push_back(std::move(entry));
  ++pushed_;
  changed_.notify_all();
}

bool WorkQueue::idle() {
  bool done = false;
  {
    const Lock lock(mutex_);
    done = finished_ == pushed_;
  }
  if (done) emu::acquire(&done_token_);
  return done;
}

void WorkQueue::wait() {
  {
    const emu::Unordered unordered;
    std::unique_lock lock(mutex_);
    changed_.wait(lock, [this, target = pushed_] { return finished_ >= target; });
  }
  emu::acquire(&done_token_);
}

void WorkQueue::finish() {
  const Lock lock(mutex_);
  stop_ = true;
  changed_.notify_all();
}

void WorkQueue::run() {
  for (;;) {
    std::unique_ptr<Work> work;
    {
      const emu::Unordered unordered;
      std::unique_lock lock(mutex_);
      changed_.wait(lock, [this] { return stop_ || !queue_.empty(); });
      if (queue_.empty()) return;
      work = std::move(queue_.front());
      queue_.pop_front();
    }
    emu::acquire(work.get());
    work->run();
    emu::release(&done_token_);
    const emu::Unordered unordered;  // what the work held may be shared with the host
    work.reset();
    const std::lock_guard lock(mutex_);
    ++finished_;
    changed_.notify_all();
  }
}

CUstream_st* find_stream(cudaStream_t stream) {
  const auto it = runtime().streams.find(stream);
  return it == runtime().streams.end() ? nullptr : it->second.get();
}

void wait_for_device(int device, bool legacy) {
  std::vector<std::shared_ptr<WorkQueue>> queues;
  {
    Runtime& r = runtime();
    const Lock lock(r.mutex);
    for (const auto& [handle, s] : r.streams)
      if (s->device == device && !(legacy && (s->flags & cudaStreamNonBlocking) != 0))
        queues.push_back(s->queue);
  }
  for (const auto& queue : queues) queue->wait();
}

cudaError_t enqueue(cudaStream_t stream, const char* name, std::function<void()> work,
                    std::shared_ptr<void> lease) {
  Runtime& r = runtime();
  std::shared_ptr<WorkQueue> queue;
  int device = 0;
  {
    const Lock lock(r.mutex);
    CUstream_st* s = find_stream(stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;  // the default stream is not used here
    r.trace += std::string(name) + ";";
    if (s->capture != nullptr) {
      if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
      auto& nodes = s->capture->nodes;
      nodes.push_back({name, std::move(work), s->tail, std::move(lease)});
      s->tail = {static_cast<int>(nodes.size()) - 1};
      return cudaSuccess;
    }
    queue = s->queue;
    device = s->device;
  }
  queue->push(
      [device, text = std::string(name), f = std::move(work)] { run_guarded(device, text, f); });
  return cudaSuccess;
}

namespace {

// The queue of a stream that may be waited for; an error if it is being captured, which makes that
// capture invalid.
cudaError_t queue_to_wait_for(cudaStream_t stream, std::shared_ptr<WorkQueue>& queue) {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  CUstream_st* s = find_stream(stream);
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (s->capture != nullptr) {
    s->capture->invalid = true;
    return cudaErrorStreamCaptureUnsupported;
  }
  queue = s->queue;
  return cudaSuccess;
}

cudaError_t sticky_error() {
  return report(runtime().sticky[current_device()].load(std::memory_order_relaxed));
}

}  // namespace
}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

cudaError_t cudaStreamCreateWithPriority(cudaStream_t* stream, unsigned flags, int priority) {
  if (const cudaError_t error = enter("cudaStreamCreateWithFlags")) return error;
  if (flags > cudaStreamNonBlocking) return report(cudaErrorInvalidValue);
  auto s = std::make_unique<CUstream_st>();
  s->device = current_device(), s->flags = flags, s->priority = priority;
  s->queue = std::make_shared<WorkQueue>();
  s->queue->start();
  *stream = s.get();
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  r.streams.emplace(s.get(), std::move(s));
  return cudaSuccess;
}

cudaError_t cudaStreamCreateWithFlags(cudaStream_t* stream, unsigned flags) {
  return cudaStreamCreateWithPriority(stream, flags, 0);
}

cudaError_t cudaDeviceGetStreamPriorityRange(int* least, int* greatest) {
  *least = 0;
  *greatest = -5;
  return cudaSuccess;
}

cudaError_t cudaStreamDestroy(cudaStream_t stream) {
  if (const cudaError_t error = device_error()) return report(error);
  Runtime& r = runtime();
  std::unique_ptr<CUstream_st> s;
  {
    const Lock lock(r.mutex);
    const auto it = r.streams.find(stream);
    if (it == r.streams.end()) return report(cudaErrorInvalidResourceHandle);
    s = std::move(it->second);
    r.streams.erase(it);
    if (s->capture != nullptr) s->capture->invalid = true;
  }
  s->queue->finish();  // as CUDA: what was enqueued is still done, nobody waits for it here
  return cudaSuccess;
}

cudaError_t cudaStreamSynchronize(cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaStreamSynchronize")) return error;
  std::shared_ptr<WorkQueue> queue;
  if (const cudaError_t error = queue_to_wait_for(stream, queue)) return report(error);
  queue->wait();
  return sticky_error();
}

cudaError_t cudaStreamQuery(cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaStreamQuery")) return error;
  std::shared_ptr<WorkQueue> queue;
  if (const cudaError_t error = queue_to_wait_for(stream, queue)) return report(error);
  const bool idle = queue->idle();
  if (const cudaError_t error = sticky_error()) return error;
  return report(idle ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaStreamGetPriority(cudaStream_t stream, int* priority) {
  const Lock lock(runtime().mutex);
  const CUstream_st* s = find_stream(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  *priority = s->priority;
  return cudaSuccess;
}

cudaError_t cudaDeviceSynchronize() {
  if (const cudaError_t error = enter_unsafe("cudaDeviceSynchronize")) return error;
  wait_for_device(current_device());
  return sticky_error();
}

cudaError_t cudaLaunchHostFunc(cudaStream_t stream, cudaHostFn_t function, void* data) {
  if (const cudaError_t error = enter("cudaLaunchHostFunc")) return error;
  return report(enqueue(stream, "host", [function, data] {
    in_host_function() = true;
    function(data);
    in_host_function() = false;
  }));
}

}  // extern "C"
