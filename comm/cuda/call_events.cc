#include "comm/cuda/call_events.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "backend/cuda/check.h"

namespace shardlm::cuda {

void CallsInFlight::add(const Call& call, cudaStream_t stream) {
  Entry& entry = entries_[n_added_++ % kCalls];
  if (!entry.ended) entry.ended = make_event();
  entry.call = call;
  check_cuda(cudaEventRecord(entry.ended.get(), stream), "recording an event");
}

std::optional<Call> CallsInFlight::first_unfinished() const {
  for (std::size_t i = n_added_ - std::min(n_added_, kCalls); i < n_added_; ++i) {
    const Entry& entry = entries_[i % kCalls];
    if (cudaEventQuery(entry.ended.get()) == cudaErrorNotReady) return entry.call;
  }
  return std::nullopt;
}

CallTimer::CallTimer(cudaStream_t stream) : stream_(stream) {
  // The event lies between the host's two readings; this thread may lose its core in any: the pair
  // that are nearest to each other counts.
  constexpr int kReadings = 8;
  std::int64_t shortest_ns = std::numeric_limits<std::int64_t>::max();
  for (int i = 0; i < kReadings; ++i) {
    Event event = make_event(true);
    const std::int64_t before_ns = steady_ns();
    check_cuda(cudaEventRecord(event.get(), stream_), "recording an event");
    check_cuda(cudaEventSynchronize(event.get()), "reading the GPU's clock");
    const std::int64_t after_ns = steady_ns();
    if (after_ns - before_ns >= shortest_ns) continue;
    shortest_ns = after_ns - before_ns;
    start_ns_ = before_ns + shortest_ns / 2;
    start_ = std::move(event);
  }
}

void CallTimer::record(const Event& event, bool recording) {
  // In a pass that is being recorded an ordinary event is an edge of the graph; an external one is
  // a node that sets the event at each replay.
  check_cuda(cudaEventRecordWithFlags(event.get(), stream_,
                                      recording ? cudaEventRecordExternal : cudaEventRecordDefault),
             "recording an event");
}

void CallTimer::begin(const Call& call, std::uint64_t bytes, bool recording) {
  open_ = entries_.size() < kCalls;
  if (!open_) return;
  entries_.push_back({call, bytes, recording, make_event(true), make_event(true)});
  record(entries_.back().begin, recording);
}

void CallTimer::end() {
  if (open_) record(entries_.back().end, entries_.back().recorded);
}

void CallTimer::collect(CallLog& log) {
  const auto ns = [](float ms) { return std::llround(static_cast<double>(ms) * 1e6); };
  for (const Entry& entry : entries_) {
    float begin_ms = 0, took_ms = 0;
    // A recorded call that has not been replayed yet has no times.
    if (cudaEventElapsedTime(&begin_ms, start_.get(), entry.begin.get()) != cudaSuccess ||
        cudaEventElapsedTime(&took_ms, entry.begin.get(), entry.end.get()) != cudaSuccess) {
      cudaGetLastError();
      continue;
    }
    const std::int64_t begin_ns = start_ns_ + ns(begin_ms);
    log.add_by_time({.call = entry.call,
                     .algorithm = "nccl",
                     .bytes = entry.bytes,
                     .start = begin_ns,
                     .end = begin_ns + ns(took_ms),
                     .dtype = DType::f32});
  }
  std::erase_if(entries_, [](const Entry& entry) { return !entry.recorded; });
}

}  // namespace shardlm::cuda
