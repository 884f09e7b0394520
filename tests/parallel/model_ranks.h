// A whole model on ranks that are threads: the real loader, layers, executor and step protocol.
#pragma once

#include <filesystem>
#include <functional>
#include <memory>
#include <vector>

#include "engine/activation_dump.h"
#include "engine/coordinator.h"
#include "engine/executor.h"
#include "io/checkpoint.h"
#include "model/config.h"
#include "model/model.h"
#include "model/weights.h"
#include "tests/support/thread_ranks.h"

namespace shardlm {

/// What rank 0 of a model on thread ranks gives to a test.
struct ModelRank {
  Coordinator& coordinator;
  const ModelConfig& config;
  const ActivationDump* dump;  ///< none unless asked for
  Backend& backend;
};

/// Calls `body` with the communicator and the back end of a rank: those of the thread, or others
/// that are made from them.
using OnDevice = std::function<void(int rank, Communicator& comm, Backend& backend,
                                    const std::function<void(Communicator&, Backend&)>& body)>;

struct ModelRankOptions {
  bool dump = false;
  std::int64_t n_blocks = 64;
  std::int64_t block_tokens = 32;
  ThreadRankOptions threads = {};
  Reduction reduction = Reduction::ordered;
  OnDevice on_device = [](int, Communicator& comm, Backend& backend, const auto& body) {
    body(comm, backend);
  };
};

/// Loads the model folder on `size` ranks, runs `body` on rank 0 while the others serve.
inline void run_model(const std::filesystem::path& folder, int size,
                      const std::function<void(ModelRank&)>& body,
                      const ModelRankOptions& options = {}) {
  const auto run_rank = [&](int rank, Communicator& comm, Backend& backend) {
    const ModelConfig config = read_model_config(folder);
    const Checkpoint checkpoint = Checkpoint::open(folder);
    CheckpointWeights weights(checkpoint, config);
    Tap silent;
    ActivationDump dump(backend, comm);
    const Context context{backend, comm, options.dump ? static_cast<Tap&>(dump) : silent,
                          options.reduction};
    const auto model = make_model(config, weights, context);
    Executor executor(context, *model, model->make_cache(options.n_blocks, options.block_tokens),
                      std::vector<std::uint8_t>(static_cast<std::size_t>(config.vocab_size), 1));
    if (rank != 0) {
      serve(comm, executor);
      return;
    }
    Coordinator coordinator(comm, executor);
    ModelRank me{coordinator, config, options.dump ? &dump : nullptr, backend};
    body(me);
    coordinator.stop(0);
  };
  run_ranks(
      size,
      [&](int rank, Communicator& comm, Backend& backend) {
        options.on_device(rank, comm, backend,
                          [&](Communicator& c, Backend& b) { run_rank(rank, c, b); });
      },
      options.threads);
}

/// One step over one sequence of `ids` from position `start`, asking about all its rows.
inline StepPlan whole_step(std::span<const std::int32_t> ids, std::int64_t start = 0) {
  StepPlan plan;
  plan.sequences.push_back(
      {.start = start, .ids = {ids.begin(), ids.end()}, .blocks = {0, 1, 2, 3, 4, 5, 6, 7}});
  for (std::size_t i = 0; i < ids.size(); ++i) {
    plan.queries.push_back({.row = static_cast<std::int32_t>(i), .query = {}, .penalties = {}});
  }
  return plan;
}

}  // namespace shardlm
