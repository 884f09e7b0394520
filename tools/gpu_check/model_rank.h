// A whole model on a rank: the project's own layers, executor and step protocol.
#pragma once

#include <cstdint>
#include <functional>

#include "engine/coordinator.h"
#include "engine/executor.h"
#include "model/config.h"
#include "parallel/weight_source.h"

namespace shardlm::gpu_check {

struct ModelRun {
  const ModelConfig& config;
  WeightSource& weights;
  std::int64_t n_blocks = 64;
  std::int64_t block_tokens = 32;
  StepHook hook = {};  ///< called on every rank before each of its steps
};

/// Loads the model on this rank; then rank 0 runs `body` while the others serve it. The back end
/// may be used for another model afterwards.
void run_model(const ModelRun& run, Communicator& comm, Backend& backend,
               const std::function<void(Coordinator&)>& body);

/// One sequence's part of a step, with the blocks that are its own: sequence i has those from
/// i * blocks_each on.
SequencePlan sequence_plan(std::int64_t index, std::int64_t blocks_each, std::int64_t start,
                           std::vector<std::int32_t> ids);

}  // namespace shardlm::gpu_check
