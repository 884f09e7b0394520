// What a session tells of its collectives, as the options ask.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <optional>

#include "comm/mpi_world.h"
#include "launcher/options.h"
#include "model/config.h"
#include "study/run_observer.h"

namespace shardlm {

/// This rank: its host, the cores that it is bound to, its machine.
RankIdentity rank_identity(const MpiWorld& world);

/// One rank's. Made by all ranks together, with the same options.
class Observation {
 public:
  /// Gives the communicator's log its memory: from now on its calls are recorded.
  Observation(Communicator& comm, const MpiWorld& world, const EngineOptions& options,
              std::string title);

  /// The model is loaded. `quality`: see ObserverOptions.
  void begin_run(const ModelConfig& config,
                 std::function<std::optional<WireQuality>()> quality = {});
  /// After each step on rank 0, if a line a step is asked for.
  bool live() const { return options_.live; }
  void step_ended();
  /// Collective, at a good end: report, trace.
  void finish();

 private:
  Communicator& comm_;
  ObserveOptions options_;
  bool fixed_point_;
  std::string title_;
  RankIdentity who_;
  std::unique_ptr<RunObserver> observer_;
  std::uint64_t n_steps_ = 0;
};

}  // namespace shardlm
