// Start and end of the job, as the launcher sees it: who are we, where do we run.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <vector>

#include "base/error.h"
#include "comm/blocking_watch.h"
#include "comm/shm_team.h"

namespace shardlm {

struct MpiHandles;

/// "Open MPI v4.1.4, package: …": the first line that the library says of itself. Needs no start.
std::string mpi_library_version();

/// True in a process that an MPI launcher started (mpirun, srun …), by the variables that they set.
/// Without one the process is a job of its own.
bool started_by_mpi_launcher();

/// Which cores this rank may run on, by the affinity masks of the node's ranks.
struct CoreShare {
  int cores = 1;             ///< cores that this rank is bound to
  int sharers = 1;           ///< ranks, this one included, that are bound to exactly these
  bool first_sharer = true;  ///< the lowest rank of those
  int node_cores = 1;        ///< cores that the node's ranks may run on, all taken together
};

/// Everything between MPI's start and end. One for the process; made and destroyed by the main
/// thread, which is also the only one to communicate. In a process that no launcher started, MPI
/// starts (a third of a second and a daemon with Open MPI) only when somebody asks for its handles
/// or its memory.
///
/// Ending: when all ranks leave together (done, or AgreedFailure), let the object be destroyed:
/// that is MPI_Finalize, which waits for all ranks. When this rank alone fails, say why and call
/// abort(). An object that is destroyed by an exception passing through does not wait for the
/// other ranks: it leaves MPI as it is, and the launcher of the job (mpirun) ends the others when
/// the process ends.
class MpiWorld {
 public:
  MpiWorld(int& argc, char**& argv);
  ~MpiWorld();
  MpiWorld(const MpiWorld&) = delete;
  MpiWorld& operator=(const MpiWorld&) = delete;

  int rank() const { return rank_; }
  int size() const { return size_; }
  int node_rank() const { return node_rank_; }  ///< among the ranks that share memory
  int node_size() const { return node_size_; }
  bool one_node() const { return node_size_ == size_; }
  /// The lowest rank of each rank's node: equal numbers share memory.
  const std::vector<int>& nodes() const { return nodes_; }
  const CoreShare& core_share() const { return core_share_; }
  bool oversubscribed() const { return node_size_ > core_share_.node_cores; }
  const std::string& host_name() const { return host_name_; }

  /// Ends the job: the process ends with this code, all other ranks are killed.
  [[noreturn]] void abort(ExitCode code) const;

  /// From now on all that remains is what ranks do at their end (memory freed together,
  /// MPI_Finalize): a rank that waits in it for longer than this (0 or less: for ever) reports and
  /// leaves with ExitCode::peer. work_again() takes it back.
  void watch_end(double limit_s);
  void work_again() { end_watch_.reset(); }

  /// Memory shared by the ranks of this node, `bytes_each` from each, zeroed by its owner and so
  /// placed near it. Collective over the node; base[i] belongs to node rank i. The ranks free it
  /// together when the last copy of `owner` goes, unless an exception is passing through: then
  /// the process's end frees it.
  ShmSegments share_memory(std::size_t bytes_each) const;

  const MpiHandles& handles() const;

 private:
  void start(int* argc, char*** argv) const;
  void look_around();

  int exceptions_at_start_;
  int rank_ = 0, size_ = 1, node_rank_ = 0, node_size_ = 1;
  CoreShare core_share_;
  std::vector<int> nodes_ = {0};
  std::string host_name_;
  std::unique_ptr<MpiHandles> handles_;
  std::unique_ptr<BlockingWatch> end_watch_;
};

}  // namespace shardlm
