#include "tests/gpu/doubles/nccl_communicator.h"

#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdlib>
#include <cstring>
#include <string_view>
#include <thread>
#include <utility>

#include "tests/gpu/doubles/doubles.h"
#include "tests/gpu/doubles/nccl_reduce.h"
#include "tests/gpu/doubles/runtime.h"

namespace shardlm::doubles {
namespace {

constexpr auto kMomentForGraphs = std::chrono::milliseconds(300);

std::uint64_t host_hash() {
  char name[256] = {};
  gethostname(name, sizeof name - 1);
  const char* chosen = std::getenv("NCCL_HOSTID");
  return std::hash<std::string_view>{}(chosen != nullptr ? chosen : name);
}

bool capturing(cudaStream_t stream) {
  const Lock lock(runtime().mutex);
  const CUstream_st* s = find_stream(stream);
  return s != nullptr && s->capture != nullptr;
}

}  // namespace

NcclCommunicator::NcclCommunicator(const std::string& world, int rank, int size, bool blocking)
    : world_(world, size),
      rank_(rank),
      size_(size),
      device_(current_device()),
      blocking_(blocking) {}

bool NcclCommunicator::join() { return world_.join(rank_, {host_hash(), device_, 0}); }

ncclResult_t NcclCommunicator::check_devices() {
  checked_ = true;
  const Member& me = world_.member(rank_);
  for (int r = 0; r < size_; ++r) {
    const Member& other = world_.member(r);
    if (r == rank_ || other.host != me.host || other.device != me.device) continue;
    set_nccl_error("Duplicate GPU detected : rank " + std::to_string(rank_) + " and rank " +
                   std::to_string(r) + " both on CUDA device " + std::to_string(me.device));
    error_ = ncclInvalidUsage;
    break;
  }
  return static_cast<ncclResult_t>(error_.load());
}

ncclResult_t NcclCommunicator::poll() {
  if (!world_.complete()) return ncclInProgress;
  if (!checked_) return check_devices();
  std::vector<Collective> calls;
  {
    const Lock lock(mutex_);
    calls.swap(pending_);
  }
  for (const Collective& call : calls)
    if (const ncclResult_t result = issue(call); result != ncclSuccess) error_ = result;
  if (finalizing_ && error_ == ncclSuccess) return step_finalize();
  return static_cast<ncclResult_t>(error_.load());
}

ncclResult_t NcclCommunicator::ready() {
  if (error_ != ncclSuccess) return static_cast<ncclResult_t>(error_.load());
  if (finalizing_) {
    set_nccl_error("the communicator has been finalized");
    return ncclInvalidUsage;
  }
  const Lock lock(mutex_);
  if (world_.complete() && checked_ && pending_.empty()) return ncclSuccess;
  set_nccl_error("Attempt to use communicator before the previous operation returned ncclSuccess");
  return ncclInvalidArgument;
}

ncclResult_t NcclCommunicator::check(const Collective& call) {
  const auto refuse = [](const char* text) {
    set_nccl_error(text);
    return ncclInvalidArgument;
  };
  if (const ncclResult_t result = ready(); result != ncclSuccess) return result;
  if (element_bytes(call.type) == 0) return refuse("a data type that the double does not know");
  const bool reduces =
      call.operation == Operation::all_reduce || call.operation == Operation::reduce_scatter;
  if (reduces && !known(static_cast<ncclRedOp_t>(call.argument)))
    return refuse("a reduction that the double does not know");
  if (!reduces && (call.argument < 0 || call.argument >= size_)) return refuse("invalid root");
  const auto ranks = static_cast<std::size_t>(size_);
  const std::size_t bytes = call.count * element_bytes(call.type);
  const bool takes_all = call.operation == Operation::reduce_scatter;
  const bool gives_all = call.operation == Operation::all_gather;
  const bool reads = call.operation != Operation::broadcast || call.argument == rank_;
  if (call.count == 0) return ncclSuccess;
  if ((reads && !memory().on_device(call.from, takes_all ? bytes * ranks : bytes)) ||
      !memory().on_device(call.to, gives_all ? bytes * ranks : bytes))
    return refuse("a buffer that is not device memory of that size");
  return ncclSuccess;
}

ncclResult_t NcclCommunicator::submit(const std::vector<Collective>& calls) {
  if (!blocking_) {
    const Lock lock(mutex_);
    pending_.insert(pending_.end(), calls.begin(), calls.end());
    return ncclInProgress;
  }
  for (const Collective& call : calls)
    if (const ncclResult_t result = issue(call); result != ncclSuccess) return result;
  return ncclSuccess;
}

ncclResult_t NcclCommunicator::issue(const Collective& call) {
  constexpr const char* kNames[] = {"", "allreduce", "allgather", "reducescatter", "broadcast"};
  const auto self = shared_from_this();
  std::shared_ptr<void> token;  // gone with the work: what finalize waits for
  if (!capturing(call.stream)) {
    ++outstanding_;
    token = std::shared_ptr<void>(nullptr, [self](void*) { --self->outstanding_; });
  }
  const cudaError_t error = enqueue(
      call.stream, kNames[static_cast<int>(call.operation)],
      [self, call, token] { self->run(call); }, lease_);
  if (error == cudaSuccess) return ncclSuccess;
  set_nccl_error(std::string("CUDA: ") + cudaGetErrorString(error));
  return ncclUnhandledCudaError;
}

ncclResult_t NcclCommunicator::finalize() {
  if (const ncclResult_t result = ready(); result != ncclSuccess) return result;
  finalizing_ = true;
  return blocking_ ? wait_until_done() : ncclInProgress;
}

ncclResult_t NcclCommunicator::wait_until_done() {
  ncclResult_t result = ncclInProgress;
  while ((result = poll()) == ncclInProgress && !aborted_)
    std::this_thread::sleep_for(std::chrono::microseconds(50));
  return result;
}

ncclResult_t NcclCommunicator::step_finalize() {
  if (outstanding_ != 0) return ncclInProgress;
  if (!std::exchange(said_finished_, true)) world_.say_finished();
  return world_.finished() >= size_ ? ncclSuccess : ncclInProgress;
}

void NcclCommunicator::abort() {
  aborted_ = true;
  const Lock lock(mutex_);
  pending_.clear();
}

bool NcclCommunicator::held_by_graphs() const {
  const auto end = std::chrono::steady_clock::now() + kMomentForGraphs;
  while (lease_.use_count() > 1) {
    if (std::chrono::steady_clock::now() > end) return true;
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  return false;
}

}  // namespace shardlm::doubles
