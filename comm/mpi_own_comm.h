// A communicator of MPI that one object owns. For comm/mpi_*.cc alone.
#pragma once

#include <exception>

#include "comm/mpi_handles.h"

namespace shardlm {

/// Made by all ranks of `parent` together. Freed at the end, unless a call over it failed: its name
/// then stays taken, since messages of it may still come, and freeing would wait for all ranks.
class MpiOwnComm {
 public:
  explicit MpiOwnComm(MPI_Comm parent)
      : comm_(duplicate(parent)), exceptions_at_start_(std::uncaught_exceptions()) {}
  ~MpiOwnComm() {
    if (!given_up_ && std::uncaught_exceptions() <= exceptions_at_start_) MPI_Comm_free(&comm_);
  }
  MpiOwnComm(const MpiOwnComm&) = delete;
  MpiOwnComm& operator=(const MpiOwnComm&) = delete;

  MPI_Comm get() const { return comm_; }
  void give_up() { given_up_ = true; }

 private:
  MPI_Comm comm_;
  int exceptions_at_start_;
  bool given_up_ = false;
};

}  // namespace shardlm
