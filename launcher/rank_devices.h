// A rank's back end and communicator, made as all ranks have agreed.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "comm/emulated_network.h"
#include "launcher/gpus.h"
#include "launcher/job.h"
#include "launcher/options.h"

namespace shardlm {

/// What every rank finds, in rank order, on rank 0; nothing elsewhere. Called by all ranks
/// together. With --backend cpu nobody looks.
std::vector<RankGpus> gather_gpus(const Job& job, const EngineOptions& options);

/// Rank 0 hears what every rank finds and decides; all ranks return the same, or throw the same
/// AgreedFailure.
BackendDecision agree_on_backend(const Job& job, const EngineOptions& options);

/// Destroyed from the last to the first: a communicator goes before the back end that it uses.
struct RankDevices {
  BackendDecision decision;
  std::unique_ptr<Backend> host;  ///< of the host communicator; none on the CPU, where it is `own`
  std::unique_ptr<Backend> own;   ///< where the model computes
  std::unique_ptr<Communicator> base;     ///< what ranks meet by
  std::unique_ptr<NetworkClock> clock;    ///< of a slow rank
  std::unique_ptr<Communicator> slowed;   ///< `base` with a slow rank, if one is asked for
  std::unique_ptr<Communicator> checked;  ///< and with every call compared
  Communicator* comm = nullptr;           ///< the outermost of these
  std::string allreduce_source = {};      ///< why its algorithms are what they are
};

/// Called by all ranks together; one rank's Error is everyone's. `threads`: of the host.
RankDevices make_rank_devices(const Job& job, const EngineOptions& options, int threads);

/// What a person should know about the choice: one line if it was auto's, a warning if ranks share
/// a GPU, options without effect. Rank 0 logs them.
void log_choice(const RankDevices& devices, const EngineOptions& options,
                const std::string& threads);

}  // namespace shardlm
