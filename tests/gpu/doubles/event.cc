#include <chrono>
#include <utility>

#include "tests/gpu/doubles/runtime.h"

namespace shardlm::doubles {

CUevent_st* find_event(cudaEvent_t event) {
  const auto it = runtime().events.find(event);
  return it == runtime().events.end() ? nullptr : it->second.get();
}

namespace {

// A node that records or waits for an event of the world outside the graph.
void add_external_node(CUstream_st& s, const char* name, cudaEvent_t records, cudaEvent_t waits) {
  auto& nodes = s.capture->nodes;
  Node node{name, {}, s.tail, nullptr, records, waits};
  nodes.push_back(std::move(node));
  s.tail = {static_cast<int>(nodes.size()) - 1};
}

cudaError_t record(cudaEvent_t event, cudaStream_t stream, bool external) {
  std::shared_ptr<WorkQueue> queue;
  auto end = std::make_shared<Completion>();
  {
    const Lock lock(runtime().mutex);
    CUstream_st* s = find_stream(stream);
    CUevent_st* e = find_event(event);
    if (s == nullptr || e == nullptr || s->device != e->device)
      return cudaErrorInvalidResourceHandle;
    if (s->capture != nullptr) {
      if (s->capture->invalid) return cudaErrorStreamCaptureInvalidated;
      if (external) return add_external_node(*s, "record", event, nullptr), cudaSuccess;
      e->capture = s->capture;
      e->captured = true;
      e->at = s->tail;
      return cudaSuccess;
    }
    if (external) return cudaErrorIllegalState;  // only a graph has an outside
    e->last = end;
    e->captured = false;
    queue = s->queue;
  }
  queue->push([end] { end->set(); });
  return cudaSuccess;
}

// The wait joins a capture (and, on the way back, merges the branch into it).
cudaError_t join(CUstream_st& s, const CUevent_st& e) {
  const std::shared_ptr<Capture> capture = e.capture.lock();
  if (capture == nullptr || !runtime().captures.contains(capture)) return cudaErrorCapturedEvent;
  if (s.capture != nullptr && s.capture != capture) {
    s.capture->invalid = capture->invalid = true;
    return cudaErrorStreamCaptureMerge;
  }
  s.capture = capture;
  s.tail.insert(s.tail.end(), e.at.begin(), e.at.end());
  return cudaSuccess;
}

cudaError_t wait(cudaStream_t stream, cudaEvent_t event, bool external) {
  std::shared_ptr<WorkQueue> queue;
  std::shared_ptr<Completion> end;
  {
    const Lock lock(runtime().mutex);
    CUstream_st* s = find_stream(stream);
    CUevent_st* e = find_event(event);
    if (s == nullptr || e == nullptr) return cudaErrorInvalidResourceHandle;
    if (s->capture != nullptr && external)
      return add_external_node(*s, "wait", nullptr, event), cudaSuccess;
    if (e->captured) return join(*s, *e);
    if (s->capture != nullptr) {
      if (e->last == nullptr) return cudaSuccess;
      s->capture->invalid = true;
      return cudaErrorStreamCaptureIsolation;
    }
    if (e->last == nullptr) return cudaSuccess;  // never recorded: nothing to wait for, as in CUDA
    end = e->last;
    queue = s->queue;
  }
  queue->push([end] { end->wait(); });
  return cudaSuccess;
}

// What the event's newest record is waiting for; null if it was never recorded.
cudaError_t last_record(cudaEvent_t event, std::shared_ptr<Completion>& last) {
  const Lock lock(runtime().mutex);
  CUevent_st* e = find_event(event);
  if (e == nullptr) return cudaErrorInvalidResourceHandle;
  if (!e->captured) {
    last = e->last;
    return cudaSuccess;
  }
  if (const auto capture = e->capture.lock()) capture->invalid = true;
  return cudaErrorCapturedEvent;
}

}  // namespace
}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

cudaError_t cudaEventCreateWithFlags(cudaEvent_t* event, unsigned flags) {
  if (const cudaError_t error = enter("cudaEventCreateWithFlags")) return error;
  auto e = std::make_unique<CUevent_st>();
  e->device = current_device();
  e->timing = (flags & cudaEventDisableTiming) == 0;
  *event = e.get();
  const Lock lock(runtime().mutex);
  runtime().events.emplace(e.get(), std::move(e));
  return cudaSuccess;
}

cudaError_t cudaEventCreate(cudaEvent_t* event) {
  return cudaEventCreateWithFlags(event, cudaEventDefault);
}

cudaError_t cudaEventDestroy(cudaEvent_t event) {
  const Lock lock(runtime().mutex);
  return report(runtime().events.erase(event) == 1 ? cudaSuccess : cudaErrorInvalidResourceHandle);
}

cudaError_t cudaEventRecord(cudaEvent_t event, cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaEventRecord")) return error;
  return report(record(event, stream, false));
}

cudaError_t cudaEventRecordWithFlags(cudaEvent_t event, cudaStream_t stream, unsigned flags) {
  if (const cudaError_t error = enter("cudaEventRecordWithFlags")) return error;
  return report(record(event, stream, (flags & cudaEventRecordExternal) != 0));
}

cudaError_t cudaStreamWaitEvent(cudaStream_t stream, cudaEvent_t event, unsigned flags) {
  if (const cudaError_t error = enter("cudaStreamWaitEvent")) return error;
  return report(wait(stream, event, (flags & cudaEventWaitExternal) != 0));
}

cudaError_t cudaEventSynchronize(cudaEvent_t event) {
  if (const cudaError_t error = enter_unsafe("cudaEventSynchronize")) return error;
  std::shared_ptr<Completion> last;
  if (const cudaError_t error = last_record(event, last)) return report(error);
  if (last != nullptr) last->wait();
  return report(runtime().sticky[current_device()].load(std::memory_order_relaxed));
}

cudaError_t cudaEventQuery(cudaEvent_t event) {
  if (const cudaError_t error = enter_unsafe("cudaEventQuery")) return error;
  std::shared_ptr<Completion> last;
  if (const cudaError_t error = last_record(event, last)) return report(error);
  return report(last == nullptr || last->ready() ? cudaSuccess : cudaErrorNotReady);
}

cudaError_t cudaEventElapsedTime(float* ms, cudaEvent_t start, cudaEvent_t end) {
  if (const cudaError_t error = enter("cudaEventElapsedTime")) return error;
  std::shared_ptr<Completion> first, second;
  {
    const Lock lock(runtime().mutex);
    const CUevent_st *a = find_event(start), *b = find_event(end);
    if (a == nullptr || b == nullptr || !a->timing || !b->timing || a->captured || b->captured)
      return report(cudaErrorInvalidResourceHandle);
    first = a->last, second = b->last;
  }
  if (first == nullptr || second == nullptr) return report(cudaErrorInvalidResourceHandle);
  if (!first->ready() || !second->ready()) return report(cudaErrorNotReady);
  *ms = std::chrono::duration<float, std::milli>(second->at() - first->at()).count();
  return cudaSuccess;
}

}  // extern "C"
