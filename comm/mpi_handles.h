// The MPI types, for the comm/mpi_*.cc files alone: no other file sees <mpi.h>.
#pragma once

#include <mpi.h>

namespace shardlm {

struct MpiHandles {
  MPI_Comm all = MPI_COMM_NULL;   ///< a duplicate of the world, whose errors are returned
  MPI_Comm node = MPI_COMM_NULL;  ///< the ranks that can share memory with this one
};

/// Error(ExitCode::peer) with MPI's own text unless `code` is MPI_SUCCESS. `doing`: "MPI_Isend to
/// rank 3".
void check_mpi(int code, const char* doing);

/// A duplicate of a communicator, with its own message space, whose errors are returned.
MPI_Comm duplicate(MPI_Comm comm);

}  // namespace shardlm
