// How fast ranks compute: one alone, and all of them at the same time, since ranks of one machine
// share its memory. What a prediction needs of a machine beside its links.
#pragma once

#include "backend/backend.h"
#include "comm/communicator.h"
#include "study/calibration.h"

namespace shardlm {

struct ComputeLimits {
  double seconds = 2;                               ///< in all, about
  std::size_t most_bytes = std::size_t{128} << 20;  ///< of weights, and of memory that is read
};

/// Collective; complete on rank 0. `all at the same time` is every rank of the group, of which the
/// first machine's count: rank 0 must be on it. Measured with weights of the back end's type.
ComputeFacts measure_compute(Communicator& control, Backend& backend, int threads,
                             int ranks_on_machine, const ComputeLimits& limits);

/// A plan out, replies in: what a step adds to its passes. Collective over `comm`, seconds on rank
/// 0.
double meetings_s(Communicator& comm);

/// gamma: the sum of two warm buffers, by their size.
std::vector<GammaClass> measure_gamma();

/// About what a step's plan and a rank's replies have for each sequence (engine/step_plan).
inline constexpr std::size_t kPlanBytes = 320, kReplyBytes = 160;

}  // namespace shardlm
