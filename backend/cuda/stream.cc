#include "backend/cuda/stream.h"

#include <chrono>
#include <thread>

#include "backend/cuda/check.h"
#include "base/error.h"

namespace shardlm::cuda {
namespace {

// A decode step takes about this long: until then the wait spins, since a sleeping thread wakes
// tens of microseconds late. Beyond it the core is given away between two looks.
constexpr double kSpin_s = 2e-3;
constexpr int kLooksPerWatch = 16;

}  // namespace

Event make_event(bool timing) {
  cudaEvent_t event = nullptr;
  check_cuda(cudaEventCreateWithFlags(&event, timing ? cudaEventDefault : cudaEventDisableTiming),
             "making an event");
  return Event(event);
}

Stream::Stream() {
  check_cuda(cudaStreamCreateWithFlags(&stream_, cudaStreamNonBlocking), "making a stream");
}

Stream::~Stream() { cudaStreamDestroy(stream_); }

template <class Query>
void Stream::poll(Query&& query) const {
  using Clock = std::chrono::steady_clock;
  const auto start = Clock::now();
  for (int looks = 1;; ++looks) {
    const cudaError_t state = query();
    if (state == cudaSuccess) return;
    if (state != cudaErrorNotReady) check_cuda(state, "running a step");
    if (looks % kLooksPerWatch != 0) continue;
    const double waited_s = std::chrono::duration<double>(Clock::now() - start).count();
    if (watch_ != nullptr) watch_->while_waiting(waited_s);
    if (waited_s > kSpin_s) std::this_thread::sleep_for(std::chrono::microseconds(20));
  }
}

void Stream::wait() const {
  poll([this] { return cudaStreamQuery(stream_); });
}

void Stream::wait(const Event& event) const {
  poll([&event] { return cudaEventQuery(event.get()); });
}

}  // namespace shardlm::cuda
