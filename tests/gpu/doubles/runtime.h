// The state of the CUDA runtime's double.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <utility>

#include <cuda_runtime_api.h>

#include "tests/gpu/doubles/memory.h"
#include "tests/gpu/doubles/stream.h"

namespace shardlm::doubles {

inline constexpr int kMaxDevices = 64;

struct Runtime {
  std::mutex mutex;  // of all that follows but the atomics; taken by host threads
  std::map<cudaStream_t, std::unique_ptr<CUstream_st>> streams;
  std::map<cudaEvent_t, std::unique_ptr<CUevent_st>> events;
  std::set<std::shared_ptr<Capture>> captures;        // the open ones
  std::map<const void*, std::size_t> dynamic_shared;  // what kernels were allowed
  std::set<std::pair<int, int>> peers;
  std::string trace, async_error;
  std::atomic<cudaError_t> sticky[kMaxDevices];  // a failed device runs nothing more
};

/// Holds a mutex of the double's without ordering, for ThreadSanitizer, the threads that share it.
/// Inside, emu::acquire and emu::release do nothing: push no work from there.
class Lock {
 public:
  explicit Lock(std::mutex& mutex) : lock_(mutex) {}

 private:
  emu::Unordered unordered_;
  std::lock_guard<std::mutex> lock_;
};

/// Never destroyed: a stream's thread may outlive main.
Runtime& runtime();

/// Keeps the error for cudaGetLastError, as every entry point does with what it returns.
cudaError_t report(cudaError_t error);

/// What entry points begin with: the error that `function` must return at once, if any (an injected
/// one, no device, the device's sticky error, a call from a host function in a stream).
cudaError_t enter(const char* function);
/// As enter, for calls that are also refused while a capture forbids them (allocation, waiting):
/// that capture is invalid afterwards.
cudaError_t enter_unsafe(const char* function);

int current_device();
cudaError_t device_error();
/// The calling thread's name in Capture::thread.
const void* thread_name();

/// The stream of this handle, or null: the default stream is never used. Hold the mutex.
CUstream_st* find_stream(cudaStream_t stream);
CUevent_st* find_event(cudaEvent_t event);

/// Runs work on a stream's thread, unless its device has failed; an exception makes it fail.
void run_guarded(int device, const std::string& name, const std::function<void()>& work);

/// Waits for all work of a device's streams; with `legacy`, only of those that the default stream
/// waits for (not created with cudaStreamNonBlocking).
void wait_for_device(int device, bool legacy = false);

/// In a function given to cudaLaunchHostFunc, which may not call CUDA.
bool& in_host_function();

}  // namespace shardlm::doubles
