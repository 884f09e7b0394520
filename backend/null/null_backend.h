// A back end that computes nothing: what a model's messages cost alone.
#pragma once

#include <memory>

#include "backend/backend.h"

namespace shardlm {

/// Tensors are memory of the host, so that a communicator can move their bytes; matrices and caches
/// have a shape and no memory, and sources of weights are never read. Ops do nothing. Replies to
/// logit queries are as if every logit were 0, so the ranks' messages have the sizes of a real run
/// and the coordinator can go on; their content means nothing.
std::unique_ptr<Backend> make_null_backend(const Precision& precision = {});

}  // namespace shardlm
