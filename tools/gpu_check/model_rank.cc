#include "tools/gpu_check/model_rank.h"

#include <memory>
#include <vector>

#include "backend/cuda/cuda_backend.h"
#include "model/model.h"

namespace shardlm::gpu_check {

void run_model(const ModelRun& run, Communicator& comm, Backend& backend,
               const std::function<void(Coordinator&)>& body) {
  Tap silent;
  const Context context{backend, comm, silent};
  const auto model = make_model(run.config, run.weights, context);
  {
    Executor executor(context, *model, model->make_cache(run.n_blocks, run.block_tokens),
                      std::vector<std::uint8_t>(static_cast<std::size_t>(run.config.vocab_size), 1),
                      run.hook);
    if (comm.rank() != 0) {
      serve(comm, executor);
    } else {
      Coordinator coordinator(comm, executor);
      body(coordinator);
      coordinator.stop(0);
    }
  }
  backend.synchronize();
  // Recorded passes hold addresses of this model's weights.
  if (auto* device = dynamic_cast<cuda::CudaBackend*>(&backend)) device->forget_passes();
}

SequencePlan sequence_plan(std::int64_t index, std::int64_t blocks_each, std::int64_t start,
                           std::vector<std::int32_t> ids) {
  SequencePlan plan{.start = start, .ids = std::move(ids), .blocks = {}};
  for (std::int64_t b = 0; b < blocks_each; ++b) {
    plan.blocks.push_back(static_cast<std::int32_t>(index * blocks_each + b));
  }
  return plan;
}

}  // namespace shardlm::gpu_check
