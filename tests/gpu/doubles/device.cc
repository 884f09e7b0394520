// Devices: how many, what they are, who reaches whose memory.
#include <algorithm>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "tests/gpu/doubles/runtime.h"

namespace shardlm::doubles {
namespace {

thread_local int device = 0;

constexpr int kMajor = 9, kMinor = 0, kProcessors = 4;  // few: grids sized by them stay small

int device_count() {
  const char* text = std::getenv("SHARDLM_FAKE_GPUS");
  return text == nullptr ? 8 : std::clamp(std::atoi(text), 0, kMaxDevices);
}

bool peers_allowed() {
  const char* text = std::getenv("SHARDLM_FAKE_GPU_P2P");
  return text == nullptr || std::string_view(text) != "0";
}

int bus_of(int d) { return 0x0b + 2 * d; }

}  // namespace

int current_device() { return device; }

cudaError_t device_error() {
  const char* text = std::getenv("SHARDLM_FAKE_GPUS");
  if (text != nullptr && std::string_view(text) == "driver") return cudaErrorInsufficientDriver;
  return device_count() == 0 ? cudaErrorNoDevice : cudaSuccess;
}

}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

cudaError_t cudaGetDeviceCount(int* count) {
  const cudaError_t error = enter("cudaGetDeviceCount");
  if (error == cudaErrorInsufficientDriver) return error;  // as the real one: *count is untouched
  *count = device_count();
  return error;
}

cudaError_t cudaSetDevice(int d) {
  if (const cudaError_t error = enter("cudaSetDevice")) return error;
  if (d < 0 || d >= device_count()) return report(cudaErrorInvalidDevice);
  device = d;
  return cudaSuccess;
}

cudaError_t cudaGetDevice(int* d) {
  if (const cudaError_t error = enter("cudaGetDevice")) return error;
  *d = device;
  return cudaSuccess;
}

cudaError_t cudaDriverGetVersion(int* version) {
  *version = device_error() == cudaErrorInsufficientDriver ? 0 : CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaRuntimeGetVersion(int* version) {
  *version = CUDART_VERSION;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetAttribute(int* value, cudaDeviceAttr attribute, int d) {
  if (const cudaError_t error = enter("cudaDeviceGetAttribute")) return error;
  if (d < 0 || d >= device_count()) return report(cudaErrorInvalidDevice);
  switch (attribute) {
    case cudaDevAttrMultiProcessorCount:
      *value = kProcessors;
      break;
    case cudaDevAttrComputeCapabilityMajor:
      *value = kMajor;
      break;
    case cudaDevAttrComputeCapabilityMinor:
      *value = kMinor;
      break;
    case cudaDevAttrMaxThreadsPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrMaxThreadsPerMultiProcessor:
      *value = 2048;
      break;
    case cudaDevAttrWarpSize:
      *value = 32;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlock:
      *value = 48 * 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerBlockOptin:
      *value = 227 * 1024;
      break;
    case cudaDevAttrMaxSharedMemoryPerMultiprocessor:
      *value = 228 * 1024;
      break;
    case cudaDevAttrReservedSharedMemoryPerBlock:
      *value = 1024;
      break;
    case cudaDevAttrClockRate:
      *value = 1'980'000;
      break;  // kHz
    case cudaDevAttrMemoryClockRate:
      *value = 2'619'000;
      break;  // kHz
    case cudaDevAttrGlobalMemoryBusWidth:
      *value = 5120;
      break;  // bits
    case cudaDevAttrL2CacheSize:
      *value = 50 << 20;
      break;
    case cudaDevAttrPciBusId:
      *value = bus_of(d);
      break;
    case cudaDevAttrPciDeviceId:
    case cudaDevAttrPciDomainId:
    case cudaDevAttrComputeMode:
    case cudaDevAttrIntegrated:
      *value = 0;
      break;
    case cudaDevAttrUnifiedAddressing:
    case cudaDevAttrCanMapHostMemory:
    case cudaDevAttrConcurrentKernels:
      *value = 1;
      break;
    case cudaDevAttrAsyncEngineCount:
      *value = 2;
      break;
    default:
      return report(cudaErrorInvalidValue);  // one that the double does not know
  }
  return cudaSuccess;
}

cudaError_t cudaGetDeviceProperties(cudaDeviceProp* p, int d) {
  if (const cudaError_t error = enter("cudaGetDeviceProperties")) return error;
  if (d < 0 || d >= device_count()) return report(cudaErrorInvalidDevice);
  *p = cudaDeviceProp{};
  std::snprintf(p->name, sizeof p->name, "Emulated GPU");
  for (std::size_t i = 0; i < sizeof p->uuid.bytes; ++i)
    p->uuid.bytes[i] = static_cast<char>(0x40 + 7 * i + static_cast<std::size_t>(d));
  p->totalGlobalMem = device_bytes();
  p->sharedMemPerBlock = 48 * 1024;
  p->sharedMemPerBlockOptin = 227 * 1024;
  p->sharedMemPerMultiprocessor = 228 * 1024;
  p->reservedSharedMemPerBlock = 1024;
  p->regsPerBlock = p->regsPerMultiprocessor = 65536;
  p->warpSize = 32;
  p->maxThreadsPerBlock = 1024;
  p->maxThreadsPerMultiProcessor = 2048;
  p->maxBlocksPerMultiProcessor = 32;
  p->major = kMajor, p->minor = kMinor;
  p->multiProcessorCount = kProcessors;
  p->pciBusID = bus_of(d);
  p->l2CacheSize = 50 << 20;
  p->memoryBusWidth = 5120;
  p->unifiedAddressing = p->canMapHostMemory = p->concurrentKernels = 1;
  p->asyncEngineCount = 2;
  return cudaSuccess;
}

cudaError_t cudaDeviceGetPCIBusId(char* id, int length, int d) {
  if (const cudaError_t error = enter("cudaDeviceGetPCIBusId")) return error;
  if (d < 0 || d >= device_count()) return report(cudaErrorInvalidDevice);
  if (length < 13) return report(cudaErrorInvalidValue);
  std::snprintf(id, static_cast<std::size_t>(length), "0000:%02X:00.0", bus_of(d));
  return cudaSuccess;
}

cudaError_t cudaDeviceCanAccessPeer(int* can, int d, int peer) {
  if (const cudaError_t error = enter("cudaDeviceCanAccessPeer")) return error;
  const int n = device_count();
  if (d < 0 || d >= n || peer < 0 || peer >= n) return report(cudaErrorInvalidDevice);
  *can = d != peer && peers_allowed() ? 1 : 0;
  return cudaSuccess;
}

cudaError_t cudaDeviceEnablePeerAccess(int peer, unsigned flags) {
  if (const cudaError_t error = enter("cudaDeviceEnablePeerAccess")) return error;
  if (peer < 0 || peer >= device_count() || peer == device) return report(cudaErrorInvalidDevice);
  if (flags != 0) return report(cudaErrorInvalidValue);
  if (!peers_allowed()) return report(cudaErrorPeerAccessUnsupported);
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  const bool fresh = r.peers.insert({device, peer}).second;
  return report(fresh ? cudaSuccess : cudaErrorPeerAccessAlreadyEnabled);
}

}  // extern "C"
