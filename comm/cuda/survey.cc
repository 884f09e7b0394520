// What GPUs this process finds.
#include <cuda_runtime_api.h>
#include <fmt/format.h>
#include <nccl.h>

#include "backend/cuda/versions.h"
#include "comm/cuda/nccl_reducer.h"
#include "comm/gpu.h"

namespace shardlm {
namespace {

int attribute(cudaDeviceAttr which, int device) {
  int value = 0;
  if (cudaDeviceGetAttribute(&value, which, device) != cudaSuccess) return 0;
  return value;
}

// Twice the clock (both edges carry data) times the width of the bus.
double memory_gb_s(int device) {
  const double kilohertz = attribute(cudaDevAttrMemoryClockRate, device);
  const double bits = attribute(cudaDevAttrGlobalMemoryBusWidth, device);
  return 2 * kilohertz * 1e3 * bits / 8 / 1e9;
}

std::vector<int> peers_of(int device, int n_devices) {
  std::vector<int> peers;
  for (int other = 0; other < n_devices; ++other) {
    int can = 0;
    if (other != device && cudaDeviceCanAccessPeer(&can, device, other) == cudaSuccess && can != 0)
      peers.push_back(other);
  }
  return peers;
}

// Asks only what needs no context on the device: a context costs some 300 MB of its memory.
GpuDevice describe_device(int index, int n_devices) {
  GpuDevice device;
  device.index = index;
  char bus_id[32] = {};
  if (cudaDeviceGetPCIBusId(bus_id, sizeof bus_id, index) == cudaSuccess) device.bus_id = bus_id;
  cudaDeviceProp properties{};
  if (cudaGetDeviceProperties(&properties, index) == cudaSuccess) {
    device.name = properties.name;
    for (const char byte : properties.uuid.bytes) {
      device.uuid += fmt::format("{:02x}", static_cast<unsigned char>(byte));
    }
    device.compute_major = properties.major;
    device.compute_minor = properties.minor;
    device.n_sm = properties.multiProcessorCount;
    device.total_bytes = properties.totalGlobalMem;
  }
  device.memory_gb_s = memory_gb_s(index);
  device.peers = peers_of(index, n_devices);
  return device;
}

std::string versions_text() {
  int driver = 0, runtime = 0, nccl = 0;
  cudaDriverGetVersion(&driver);
  cudaRuntimeGetVersion(&runtime);
  ncclGetVersion(&nccl);
  const int cublas = cuda::cublas_version();
  return fmt::format("driver {}.{}, runtime {}.{}, cuBLASLt {}.{}, NCCL {}", driver / 1000,
                     driver % 1000 / 10, runtime / 1000, runtime % 1000 / 10, cublas / 10000,
                     cublas / 100 % 100, cuda::nccl_version_text(nccl));
}

std::string reason_of(cudaError_t code) {
  if (code == cudaSuccess || code == cudaErrorNoDevice) return "no CUDA device is present";
  if (code == cudaErrorInsufficientDriver) return "no NVIDIA driver, or one older than the program";
  return fmt::format("CUDA says {} ({})", cudaGetErrorString(code), cudaGetErrorName(code));
}

}  // namespace

GpuSurvey survey_gpus() {
  GpuSurvey survey;
  survey.built_in = true;
  survey.versions = versions_text();
  int n_devices = 0;  // stays as it is where there is no driver
  const cudaError_t code = cudaGetDeviceCount(&n_devices);
  for (int index = 0; code == cudaSuccess && index < n_devices; ++index) {
    survey.devices.push_back(describe_device(index, n_devices));
  }
  if (survey.devices.empty()) survey.none_because = reason_of(code);
  cudaGetLastError();
  return survey;
}

}  // namespace shardlm
