// Forward passes on a stream: enqueued one op at a time, or recorded once and replayed.
#pragma once

#include <cuda_runtime_api.h>

#include <cstdint>
#include <map>
#include <memory>
#include <utility>

#include "backend/backend.h"
#include "backend/cuda/step_inputs.h"
#include "backend/cuda/stream.h"

namespace shardlm::cuda {

/// Rows to which a repeatable step of n rows is padded: 1, 2, 3, 4, 6, 8, 12, 16, 24, 32, …
std::int64_t row_bucket(std::int64_t n);

class PassRunner {
 public:
  PassRunner(const Stream& stream, bool record) : stream_(stream), record_(record) {}

  /// A repeatable step of one-row sequences is padded to a bucket of rows and of tokens. A bucket's
  /// first pass is enqueued as any other (libraries set themselves up, pools fill), the second is
  /// recorded and launched, all later ones are launches.
  Tensor run(const Step& step, const Backend::Pass& pass);

  bool recording() const { return recording_; }
  /// True inside a pass that may be recorded: its tensors come from a pool of their own, which no
  /// other work writes to, since recorded passes keep the addresses.
  bool repeatable() const { return repeatable_; }
  /// How often a pass was launched from a recording.
  std::int64_t replays() const { return replays_; }
  void forget();

 private:
  struct GraphDeleter {
    void operator()(cudaGraphExec_t graph) const { cudaGraphExecDestroy(graph); }
  };
  using Graph = std::unique_ptr<CUgraphExec_st, GraphDeleter>;
  struct Recorded {
    StepInputs inputs;
    bool warm = false;
    Graph graph;
    Tensor logits;
  };

  Tensor run_repeatable(const Step& step, const Backend::Pass& pass);
  Graph record(const Step& staged, const Backend::Pass& pass, Tensor& logits);

  const Stream& stream_;
  bool record_;
  bool recording_ = false, repeatable_ = false;
  std::int64_t replays_ = 0;
  StepInputs eager_inputs_;
  std::map<std::pair<std::int64_t, std::int64_t>, Recorded> by_size_;  // rows, most tokens
};

}  // namespace shardlm::cuda
