// Copies and fills. Each side's memory decides, as in CUDA: pageable host memory is staged, so the
// call may not return before it was read or written; pinned memory is truly asynchronous.
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include "tests/gpu/doubles/doubles.h"
#include "tests/gpu/doubles/runtime.h"

namespace shardlm::doubles {
namespace {

/// height rows of `width` bytes each; one row for a copy without pitch.
struct Rows {
  void* to;
  std::size_t to_pitch;
  const void* from;
  std::size_t from_pitch, width, height;

  std::size_t to_span() const { return span(to_pitch); }
  std::size_t from_span() const { return span(from_pitch); }
  bool empty() const { return width == 0 || height == 0; }
  bool valid() const { return height <= 1 || (to_pitch >= width && from_pitch >= width); }
  void copy() const {
    for (std::size_t i = 0; i < height; ++i)
      std::memcpy(static_cast<char*>(to) + i * to_pitch,
                  static_cast<const char*>(from) + i * from_pitch, width);
  }

 private:
  std::size_t span(std::size_t pitch) const { return (height - 1) * pitch + width; }
};

bool device_side(Place p) { return p == Place::device || p == Place::opened; }

bool kind_fits(cudaMemcpyKind kind, Place to, Place from) {
  switch (kind) {
    case cudaMemcpyHostToDevice:
      return device_side(to) && !device_side(from);
    case cudaMemcpyDeviceToHost:
      return !device_side(to) && device_side(from);
    case cudaMemcpyDeviceToDevice:
      return device_side(to) && device_side(from);
    case cudaMemcpyHostToHost:
      return !device_side(to) && !device_side(from);
    case cudaMemcpyDefault:
      return true;
  }
  return false;
}

/// Where both sides lie; an error if they do not fit the kind or reach over an allocation's end.
cudaError_t places(const Rows& rows, cudaMemcpyKind kind, Place& to, Place& from) {
  const auto t = memory().place(rows.to, rows.to_span());
  const auto f = memory().place(rows.from, rows.from_span());
  if (!rows.valid() || !t || !f || !kind_fits(kind, *t, *f)) return cudaErrorInvalidValue;
  to = *t, from = *f;
  return cudaSuccess;
}

// A graph would keep the address of pageable memory: refused, and the capture is invalid.
cudaError_t refuse_in_capture(cudaStream_t stream) {
  const Lock lock(runtime().mutex);
  CUstream_st* s = find_stream(stream);
  if (s == nullptr) return cudaErrorInvalidResourceHandle;
  if (s->capture == nullptr) return cudaSuccess;
  s->capture->invalid = true;
  return cudaErrorStreamCaptureUnsupported;
}

cudaError_t wait_for_stream(cudaStream_t stream) {
  std::shared_ptr<WorkQueue> queue;
  {
    const Lock lock(runtime().mutex);
    queue = find_stream(stream)->queue;
  }
  queue->wait();
  return runtime().sticky[current_device()].load(std::memory_order_relaxed);
}

cudaError_t copy_async(Rows rows, cudaMemcpyKind kind, cudaStream_t stream) {
  if (rows.empty()) return cudaSuccess;
  Place to{}, from{};
  if (const cudaError_t error = places(rows, kind, to, from)) return error;
  if (to == Place::pageable || from == Place::pageable)
    if (const cudaError_t error = refuse_in_capture(stream)) return error;
  if (from == Place::pageable && to != Place::pageable) {
    auto staged = std::make_shared<std::vector<char>>(rows.width * rows.height);
    Rows{staged->data(), rows.width, rows.from, rows.from_pitch, rows.width, rows.height}.copy();
    rows.from = staged->data();
    rows.from_pitch = rows.width;
    return enqueue(stream, "memcpy", [rows, s = std::move(staged)] { rows.copy(); });
  }
  if (const cudaError_t error = enqueue(stream, "memcpy", [rows] { rows.copy(); })) return error;
  return to == Place::pageable ? wait_for_stream(stream) : cudaSuccess;
}

cudaError_t fill_async(void* to, std::size_t pitch, int value, std::size_t width,
                       std::size_t height, cudaStream_t stream) {
  const Rows rows{to, pitch, to, pitch, width, height};
  if (rows.empty()) return cudaSuccess;
  const auto where = memory().place(to, rows.to_span());
  if (!rows.valid() || !where || *where == Place::pageable) return cudaErrorInvalidValue;
  return enqueue(stream, "memset", [=] {
    for (std::size_t i = 0; i < height; ++i)
      std::memset(static_cast<char*>(to) + i * pitch, value, width);
  });
}

}  // namespace
}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

cudaError_t cudaMemcpyAsync(void* to, const void* from, std::size_t n, cudaMemcpyKind kind,
                            cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaMemcpyAsync")) return error;
  return report(copy_async({to, n, from, n, n, 1}, kind, stream));
}

cudaError_t cudaMemcpy2DAsync(void* to, std::size_t to_pitch, const void* from,
                              std::size_t from_pitch, std::size_t width, std::size_t height,
                              cudaMemcpyKind kind, cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaMemcpy2DAsync")) return error;
  return report(copy_async({to, to_pitch, from, from_pitch, width, height}, kind, stream));
}

// Waits for streams that take part in the default stream's order only: for one created with
// cudaStreamNonBlocking the caller must have waited himself.
cudaError_t cudaMemcpy(void* to, const void* from, std::size_t n, cudaMemcpyKind kind) {
  if (const cudaError_t error = enter_unsafe("cudaMemcpy")) return error;
  const Rows rows{to, n, from, n, n, 1};
  if (rows.empty()) return cudaSuccess;
  Place t{}, f{};
  if (const cudaError_t error = places(rows, kind, t, f)) return report(error);
  wait_for_device(current_device(), true);
  rows.copy();
  return cudaSuccess;
}

cudaError_t cudaMemsetAsync(void* to, int value, std::size_t n, cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaMemsetAsync")) return error;
  return report(fill_async(to, n, value, n, 1, stream));
}

cudaError_t cudaMemset2DAsync(void* to, std::size_t pitch, int value, std::size_t width,
                              std::size_t height, cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaMemset2DAsync")) return error;
  return report(fill_async(to, pitch, value, width, height, stream));
}

cudaError_t cudaMemset(void* to, int value, std::size_t n) {
  if (const cudaError_t error = enter_unsafe("cudaMemset")) return error;
  if (n == 0) return cudaSuccess;
  const auto where = memory().place(to, n);
  if (!where || *where == Place::pageable) return report(cudaErrorInvalidValue);
  wait_for_device(current_device(), true);
  std::memset(to, value, n);
  return cudaSuccess;
}

}  // extern "C"
