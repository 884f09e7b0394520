// Stands in for NCCL's header where scripts/gpu-check finds no NCCL: every call fails and says why.
// What is here is what comm/cuda uses.
#pragma once

#include <cuda_runtime_api.h>

#include <cstddef>

#define NCCL_VERSION(major, minor, patch) ((major)*10000 + (minor)*100 + (patch))
#define NCCL_CONFIG_INITIALIZER \
  { 0 }

using ncclComm_t = struct ncclComm*;
struct ncclUniqueId {
  char internal[128];
};
struct ncclConfig_t {
  int blocking;
};
enum ncclResult_t { ncclSuccess = 0, ncclInvalidUsage = 5, ncclInProgress = 7 };
enum ncclDataType_t { ncclFloat32 = 7 };
enum ncclRedOp_t { ncclSum = 0 };

inline const char* ncclGetErrorString(ncclResult_t) { return "gpu-check was built without NCCL"; }
inline const char* ncclGetLastError(ncclComm_t) { return ""; }
inline ncclResult_t ncclGetVersion(int* version) {
  *version = 0;
  return ncclInvalidUsage;
}
inline ncclResult_t ncclGetUniqueId(ncclUniqueId*) { return ncclInvalidUsage; }
inline ncclResult_t ncclCommInitRankConfig(ncclComm_t*, int, ncclUniqueId, int, ncclConfig_t*) {
  return ncclInvalidUsage;
}
inline ncclResult_t ncclCommGetAsyncError(ncclComm_t, ncclResult_t*) { return ncclInvalidUsage; }
inline ncclResult_t ncclCommFinalize(ncclComm_t) { return ncclInvalidUsage; }
inline ncclResult_t ncclCommDestroy(ncclComm_t) { return ncclInvalidUsage; }
inline ncclResult_t ncclCommAbort(ncclComm_t) { return ncclInvalidUsage; }
inline ncclResult_t ncclAllReduce(const void*, void*, std::size_t, ncclDataType_t, ncclRedOp_t,
                                  ncclComm_t, cudaStream_t) {
  return ncclInvalidUsage;
}
