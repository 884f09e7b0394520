// Errors, and what all entry points share.
#include "tests/gpu/doubles/runtime.h"

#include <cstdio>
#include <new>
#include <stdexcept>

#include "tests/gpu/doubles/doubles.h"
#include "tests/gpu/doubles/faults.h"

namespace shardlm::doubles {
namespace {

thread_local cudaError_t last_error = cudaSuccess;

// The captures that forbid this thread what is unsafe in one.
bool forbidden_by(const Capture& capture) {
  if (capture.mode == cudaStreamCaptureModeGlobal) return true;
  return capture.mode == cudaStreamCaptureModeThreadLocal && capture.thread == thread_name();
}

void set_sticky(int device, cudaError_t error, const std::string& text) {
  Runtime& r = runtime();
  emu::release(&r.sticky[device]);
  const Lock lock(r.mutex);
  if (r.async_error.empty()) r.async_error = text;
  r.sticky[device].store(error, std::memory_order_relaxed);
}

}  // namespace

Runtime& runtime() {
  alignas(Runtime) static std::byte storage[sizeof(Runtime)];
  static Runtime* const r = std::construct_at(reinterpret_cast<Runtime*>(storage));
  return *r;
}

const void* thread_name() {
  static thread_local char name;
  return &name;
}

bool& in_host_function() {
  static thread_local bool inside = false;
  return inside;
}

cudaError_t report(cudaError_t error) {
  if (error != cudaSuccess) last_error = error;
  return error;
}

cudaError_t enter(const char* function) {
  if (const int error = injected_fault(function)) return report(static_cast<cudaError_t>(error));
  if (const cudaError_t error = device_error()) return report(error);
  if (in_host_function()) return report(cudaErrorNotPermitted);
  auto& sticky = runtime().sticky[current_device()];
  const cudaError_t error = sticky.load(std::memory_order_relaxed);
  // Who hears of a failure need not wait: what the stream did before it is over.
  if (error != cudaSuccess) emu::acquire(&sticky);
  return report(error);
}

cudaError_t enter_unsafe(const char* function) {
  if (const cudaError_t error = enter(function)) return error;
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  bool refused = false;
  for (const auto& capture : r.captures)
    if (forbidden_by(*capture)) refused = capture->invalid = true;
  return report(refused ? cudaErrorStreamCaptureUnsupported : cudaSuccess);
}

void run_guarded(int device, const std::string& name, const std::function<void()>& work) {
  // Relaxed, and no lock: what one stream did must not look ordered before another's work.
  if (runtime().sticky[device].load(std::memory_order_relaxed) != cudaSuccess) return;
  if (const int error = injected_fault("work"))
    return set_sticky(device, static_cast<cudaError_t>(error), name + ": injected fault");
  try {
    work();
  } catch (const std::exception& e) {
    set_sticky(device, cudaErrorLaunchFailure, name + ": " + e.what());
  }
}

std::string take_async_error() {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  for (auto& error : r.sticky) error.store(cudaSuccess, std::memory_order_relaxed);
  return std::exchange(r.async_error, {});
}

std::string take_trace() {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  return std::exchange(r.trace, {});
}

}  // namespace shardlm::doubles

using namespace shardlm::doubles;

namespace {

struct ErrorText {
  cudaError_t error;
  const char *name, *text;
};
#define SHARDLM_ERROR(name, text) \
  { name, #name, text }
constexpr ErrorText kErrors[] = {
    SHARDLM_ERROR(cudaSuccess, "no error"),
    SHARDLM_ERROR(cudaErrorInvalidValue, "invalid argument"),
    SHARDLM_ERROR(cudaErrorMemoryAllocation, "out of memory"),
    SHARDLM_ERROR(cudaErrorInitializationError, "initialization error"),
    SHARDLM_ERROR(cudaErrorInvalidConfiguration, "invalid configuration argument"),
    SHARDLM_ERROR(cudaErrorInsufficientDriver,
                  "CUDA driver version is insufficient for CUDA runtime version"),
    SHARDLM_ERROR(cudaErrorInvalidDeviceFunction, "invalid device function"),
    SHARDLM_ERROR(cudaErrorNoDevice, "no CUDA-capable device is detected"),
    SHARDLM_ERROR(cudaErrorInvalidDevice, "invalid device ordinal"),
    SHARDLM_ERROR(cudaErrorDeviceUninitialized, "invalid device context"),
    SHARDLM_ERROR(cudaErrorMapBufferObjectFailed, "mapping of buffer object failed"),
    SHARDLM_ERROR(cudaErrorECCUncorrectable, "uncorrectable ECC error encountered"),
    SHARDLM_ERROR(cudaErrorPeerAccessUnsupported,
                  "peer access is not supported between these two devices"),
    SHARDLM_ERROR(cudaErrorInvalidResourceHandle, "invalid resource handle"),
    SHARDLM_ERROR(cudaErrorIllegalState, "the operation cannot be performed in the present state"),
    SHARDLM_ERROR(cudaErrorNotReady, "device not ready"),
    SHARDLM_ERROR(cudaErrorIllegalAddress, "an illegal memory access was encountered"),
    SHARDLM_ERROR(cudaErrorPeerAccessAlreadyEnabled, "peer access is already enabled"),
    SHARDLM_ERROR(cudaErrorLaunchFailure, "unspecified launch failure"),
    SHARDLM_ERROR(cudaErrorNotPermitted, "operation not permitted"),
    SHARDLM_ERROR(cudaErrorNotSupported, "operation not supported"),
    SHARDLM_ERROR(cudaErrorStreamCaptureUnsupported,
                  "operation not permitted when stream is capturing"),
    SHARDLM_ERROR(cudaErrorStreamCaptureInvalidated,
                  "operation failed due to a previous error during capture"),
    SHARDLM_ERROR(cudaErrorStreamCaptureMerge,
                  "operation would result in a merge of separate capture sequences"),
    SHARDLM_ERROR(cudaErrorStreamCaptureUnmatched,
                  "capture was not ended in the same stream as it began"),
    SHARDLM_ERROR(cudaErrorStreamCaptureUnjoined, "capturing stream has unjoined work"),
    SHARDLM_ERROR(cudaErrorStreamCaptureIsolation,
                  "dependency created on uncaptured work in another stream"),
    SHARDLM_ERROR(cudaErrorStreamCaptureWrongThread,
                  "attempt to terminate a thread-local capture sequence from another thread"),
    SHARDLM_ERROR(cudaErrorCapturedEvent,
                  "operation not permitted on an event last recorded in a capturing stream"),
};
#undef SHARDLM_ERROR

const ErrorText* text_of(cudaError_t error) {
  for (const ErrorText& e : kErrors)
    if (e.error == error) return &e;
  return nullptr;
}

}  // namespace

extern "C" {

cudaError_t cudaGetLastError() {
  if (const cudaError_t error = device_error()) return error;
  const cudaError_t error = std::exchange(last_error, cudaSuccess);
  // A failed device says so for ever.
  const cudaError_t sticky = runtime().sticky[current_device()].load(std::memory_order_relaxed);
  return sticky != cudaSuccess ? sticky : error;
}

cudaError_t cudaPeekAtLastError() {
  if (const cudaError_t error = device_error()) return error;
  const cudaError_t sticky = runtime().sticky[current_device()].load(std::memory_order_relaxed);
  return sticky != cudaSuccess ? sticky : last_error;
}

const char* cudaGetErrorName(cudaError_t error) {
  if (const ErrorText* e = text_of(error)) return e->name;
  thread_local char other[32];
  std::snprintf(other, sizeof other, "cudaError %d", static_cast<int>(error));
  return other;
}

const char* cudaGetErrorString(cudaError_t error) {
  const ErrorText* e = text_of(error);
  return e != nullptr ? e->text : "an error that the double has no text for";
}

}  // extern "C"
