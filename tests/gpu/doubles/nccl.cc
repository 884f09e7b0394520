// NCCL's entry points.
#include <nccl.h>
#include <unistd.h>

#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include "tests/gpu/doubles/faults.h"
#include "tests/gpu/doubles/nccl_communicator.h"
#include "tests/gpu/doubles/runtime.h"

struct ncclComm {
  std::shared_ptr<shardlm::doubles::NcclCommunicator> state;
};

namespace shardlm::doubles {
namespace {

struct LastError {
  std::mutex mutex;
  std::string text;
};
LastError& last_error() {
  static LastError e;
  return e;
}

// Collectives between ncclGroupStart and ncclGroupEnd.
struct Group {
  int depth = 0;
  std::vector<std::pair<NcclCommunicator*, std::vector<Collective>>> calls;
};
Group& group() {
  thread_local Group g;
  return g;
}

ncclResult_t collective(const char* name, ncclComm_t comm, const Collective& call) {
  if (const int error = injected_fault(name)) return static_cast<ncclResult_t>(error);
  if (comm == nullptr) return ncclInvalidArgument;
  if (const ncclResult_t result = comm->state->check(call); result != ncclSuccess) return result;
  Group& g = group();
  if (g.depth == 0) return comm->state->submit({call});
  for (auto& [state, calls] : g.calls)
    if (state == comm->state.get()) return calls.push_back(call), ncclSuccess;
  g.calls.push_back({comm->state.get(), {call}});
  return ncclSuccess;
}

// A communicator that living graphs hold stays, as NCCL's would wait for ever.
ncclResult_t destroy(ncclComm_t comm, const char* call) {
  if (comm->state->held_by_graphs()) {
    set_nccl_error(std::string(call) +
                   ": graphs with collectives of this communicator live; destroy them first");
    return ncclInvalidUsage;
  }
  const emu::Unordered unordered;  // work that was aborted may still hold its share
  const std::unique_ptr<ncclComm> owned(comm);
  return ncclSuccess;
}

}  // namespace

void set_nccl_error(const std::string& text) {
  LastError& e = last_error();
  const Lock lock(e.mutex);
  e.text = text;
}

std::string nccl_error() {
  LastError& e = last_error();
  const Lock lock(e.mutex);
  return e.text;
}

}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

ncclResult_t ncclGetVersion(int* version) {
  if (const int error = injected_fault("ncclGetVersion")) return static_cast<ncclResult_t>(error);
  const char* text = std::getenv("SHARDLM_FAKE_NCCL_VERSION");
  *version = text == nullptr ? NCCL_VERSION_CODE : std::atoi(text);
  return ncclSuccess;
}

const char* ncclGetErrorString(ncclResult_t result) {
  switch (result) {
    case ncclSuccess:
      return "no error";
    case ncclUnhandledCudaError:
      return "unhandled cuda error";
    case ncclSystemError:
      return "unhandled system error";
    case ncclInternalError:
      return "internal error";
    case ncclInvalidArgument:
      return "invalid argument";
    case ncclInvalidUsage:
      return "invalid usage";
    case ncclRemoteError:
      return "remote process exited or there was a network error";
    case ncclInProgress:
      return "NCCL operation in progress";
    default:
      return "unknown result code";
  }
}

const char* ncclGetLastError(ncclComm_t) {
  thread_local std::string text;
  text = nccl_error();
  return text.c_str();
}

ncclResult_t ncclGetUniqueId(ncclUniqueId* id) {
  if (const int error = injected_fault("ncclGetUniqueId")) return static_cast<ncclResult_t>(error);
  std::memset(id, 0, sizeof *id);
  std::random_device random;
  std::snprintf(id->internal, sizeof id->internal, "/shardlm-nccl-double-%d-%08x",
                static_cast<int>(getpid()), random());
  return ncclSuccess;
}

ncclResult_t ncclCommInitRankConfig(ncclComm_t* comm, int size, ncclUniqueId id, int rank,
                                    ncclConfig_t* config) {
  if (const int error = injected_fault("ncclCommInitRankConfig"))
    return static_cast<ncclResult_t>(error);
  if (size < 1 || size > kMaxRanks || rank < 0 || rank >= size) return ncclInvalidArgument;
  if (device_error() != cudaSuccess) {
    set_nccl_error("Cuda failure 'no usable device'");
    return ncclUnhandledCudaError;
  }
  const bool blocking = config == nullptr || config->blocking != 0;
  auto c = std::make_unique<ncclComm>();
  try {
    c->state = std::make_shared<NcclCommunicator>(id.internal, rank, size, blocking);
  } catch (const std::exception& e) {
    set_nccl_error(e.what());
    return ncclSystemError;
  }
  if (!c->state->join()) {
    set_nccl_error("two ranks have the number " + std::to_string(rank));
    return ncclInvalidUsage;
  }
  *comm = c.release();
  if (!blocking) return ncclInProgress;
  ncclResult_t result = ncclInProgress;
  while ((result = (*comm)->state->poll()) == ncclInProgress)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  return result;
}

ncclResult_t ncclCommInitRank(ncclComm_t* comm, int size, ncclUniqueId id, int rank) {
  return ncclCommInitRankConfig(comm, size, id, rank, nullptr);
}

ncclResult_t ncclCommGetAsyncError(ncclComm_t comm, ncclResult_t* state) {
  if (const int error = injected_fault("ncclCommGetAsyncError"))
    return static_cast<ncclResult_t>(error);
  if (comm == nullptr || state == nullptr) return ncclInvalidArgument;
  *state = comm->state->poll();
  return ncclSuccess;
}

ncclResult_t ncclCommFinalize(ncclComm_t comm) {
  if (const int error = injected_fault("ncclCommFinalize")) return static_cast<ncclResult_t>(error);
  return comm == nullptr ? ncclInvalidArgument : comm->state->finalize();
}

ncclResult_t ncclCommDestroy(ncclComm_t comm) {
  if (const int error = injected_fault("ncclCommDestroy")) return static_cast<ncclResult_t>(error);
  if (comm == nullptr) return ncclSuccess;
  if (const ncclResult_t ready = comm->state->ready(); ready == ncclSuccess)
    comm->state->finalize();
  ncclResult_t state = ncclInProgress;  // blocks until all ranks have finalized, as NCCL does
  while ((state = comm->state->poll()) == ncclInProgress)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  return destroy(comm, "ncclCommDestroy");
}

ncclResult_t ncclCommAbort(ncclComm_t comm) {
  if (const int error = injected_fault("ncclCommAbort")) return static_cast<ncclResult_t>(error);
  if (comm == nullptr) return ncclSuccess;
  comm->state->abort();
  return destroy(comm, "ncclCommAbort");
}

ncclResult_t ncclCommCount(const ncclComm_t comm, int* count) {
  *count = comm->state->size();
  return ncclSuccess;
}

ncclResult_t ncclCommUserRank(const ncclComm_t comm, int* rank) {
  *rank = comm->state->rank();
  return ncclSuccess;
}

ncclResult_t ncclCommCuDevice(const ncclComm_t comm, int* device) {
  *device = comm->state->device();
  return ncclSuccess;
}

ncclResult_t ncclGroupStart() {
  ++group().depth;
  return ncclSuccess;
}

ncclResult_t ncclGroupEnd() {
  Group& g = group();
  if (g.depth == 0) return ncclInvalidUsage;
  if (--g.depth > 0) return ncclSuccess;
  const auto calls = std::exchange(g.calls, {});
  for (const auto& [state, list] : calls)
    if (state->blocking() != calls.front().first->blocking()) {
      set_nccl_error("Blocking and nonblocking communicators are not allowed in the same group");
      return ncclInvalidArgument;
    }
  ncclResult_t result = ncclSuccess;
  for (const auto& [state, list] : calls) {
    const ncclResult_t one = state->submit(list);
    if (one != ncclSuccess && one != ncclInProgress) return one;
    if (one == ncclInProgress) result = one;
  }
  return result;
}

ncclResult_t ncclAllReduce(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllReduce", comm,
                    {Operation::all_reduce, from, to, count, type, reduction, stream});
}

ncclResult_t ncclAllGather(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclAllGather", comm,
                    {Operation::all_gather, from, to, count, type, 0, stream});
}

ncclResult_t ncclReduceScatter(const void* from, void* to, std::size_t count, ncclDataType_t type,
                               ncclRedOp_t reduction, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclReduceScatter", comm,
                    {Operation::reduce_scatter, from, to, count, type, reduction, stream});
}

ncclResult_t ncclBroadcast(const void* from, void* to, std::size_t count, ncclDataType_t type,
                           int root, ncclComm_t comm, cudaStream_t stream) {
  return collective("ncclBroadcast", comm,
                    {Operation::broadcast, from, to, count, type, root, stream});
}

}  // extern "C"
