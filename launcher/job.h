// What all ranks have before a command starts.
#pragma once

#include "comm/communicator.h"
#include "comm/mpi_world.h"

namespace shardlm {

/// The world, and a plain way to agree.
struct Job {
  MpiWorld& world;
  Communicator& control;
};

}  // namespace shardlm
