// What a layer needs of its rank: passed, never global, so that several ranks can share a process.
#pragma once

#include "backend/backend.h"
#include "comm/communicator.h"
#include "parallel/tap.h"

namespace shardlm {

struct Context {
  Backend& backend;
  Communicator& comm;
  Tap& tap;
};

}  // namespace shardlm
