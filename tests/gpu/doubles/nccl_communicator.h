// One rank's communicator of the NCCL double.
//
// As NCCL: a non-blocking communicator does nothing until it is asked how far it is; a dead or
// missing peer is waited for until the communicator is aborted; one whose work is in a living graph
// cannot be destroyed. Unlike NCCL, where that would be a silent hang, ranks that issue different
// collectives get an error with a text, and so does the graph.
#pragma once

#include <atomic>
#include <cstddef>
#include <functional>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include <cuda_runtime_api.h>
#include <nccl.h>

#include "tests/gpu/doubles/nccl_world.h"

namespace shardlm::doubles {

enum class Operation { all_reduce = 1, all_gather, reduce_scatter, broadcast };

/// A collective call's arguments; `argument` is its reduction or its root.
struct Collective {
  Operation operation;
  const void* from;
  void* to;
  std::size_t count;
  ncclDataType_t type;
  int argument;
  cudaStream_t stream;
};

class NcclCommunicator : public std::enable_shared_from_this<NcclCommunicator> {
 public:
  NcclCommunicator(const std::string& world, int rank, int size, bool blocking);

  int rank() const { return rank_; }
  int size() const { return size_; }
  int device() const { return device_; }
  bool blocking() const { return blocking_; }

  /// False if another rank has this number.
  bool join();
  /// Issues what is to be issued, and says how far the communicator is.
  ncclResult_t poll();
  /// ncclSuccess if a new call may be made now.
  ncclResult_t ready();
  /// Checks the arguments; the work itself is done by `issue`, now or (non-blocking) when polled.
  ncclResult_t check(const Collective& call);
  ncclResult_t submit(const std::vector<Collective>& calls);

  ncclResult_t finalize();
  /// Ends the work that waits for peers.
  void abort();
  bool aborted() const { return aborted_; }
  /// Whether graphs that hold collectives of this communicator live. Waits a moment for launches
  /// that are about to end.
  bool held_by_graphs() const;

 private:
  ncclResult_t issue(const Collective& call);
  ncclResult_t check_devices();
  ncclResult_t wait_until_done();
  ncclResult_t step_finalize();

  void run(const Collective& call);
  bool agree(const Collective& call);
  bool exchange(const Collective& call, std::size_t begin, std::size_t elements);
  bool meet();

  World world_;
  int rank_, size_, device_;
  bool blocking_;
  std::mutex mutex_;  // of pending_
  std::vector<Collective> pending_;
  bool checked_ = false;  // that no two ranks share a device
  bool finalizing_ = false, said_finished_ = false;
  std::uint64_t sequence_ = 0;  // of the stream's thread
  std::atomic<int> error_{ncclSuccess}, outstanding_{0};
  std::atomic<bool> aborted_{false};
  std::shared_ptr<int> lease_ = std::make_shared<int>(0);
};

/// What ncclGetLastError says: the newest text.
void set_nccl_error(const std::string& text);
std::string nccl_error();

}  // namespace shardlm::doubles
