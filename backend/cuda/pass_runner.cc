#include "backend/cuda/pass_runner.h"

#include <algorithm>
#include <bit>
#include <utility>

#include "backend/cuda/check.h"

namespace shardlm::cuda {
namespace {

constexpr std::int64_t kMostRecordedRows = 256;  // beyond it launches cost nothing beside the work

/// Sets a flag while it lives.
class While {
 public:
  explicit While(bool& flag) : flag_(flag) { flag_ = true; }
  ~While() { flag_ = false; }
  While(const While&) = delete;
  While& operator=(const While&) = delete;

 private:
  bool& flag_;
};

bool one_row_and_logits_each(const Step& step) {
  const auto sequences = step.sequences.host;
  return std::ssize(sequences) == step.ids.size() && step.logit_rows.size() == step.ids.size() &&
         std::all_of(sequences.begin(), sequences.end(),
                     [](const SequenceRows& s) { return s.n_rows == 1; });
}

}  // namespace

std::int64_t row_bucket(std::int64_t n) {
  if (n <= 4) return n;
  const auto unit =
      static_cast<std::int64_t>(std::bit_floor(static_cast<std::uint64_t>(n - 1)) / 2);
  return (n + unit - 1) / unit * unit;
}

Tensor PassRunner::run(const Step& step, const Backend::Pass& pass) {
  const std::int64_t n = step.ids.size();
  if (record_ && step.repeatable && n > 0 && n <= kMostRecordedRows &&
      one_row_and_logits_each(step)) {
    return run_repeatable(step, pass);
  }
  return pass(eager_inputs_.stage(stream_, step));
}

Tensor PassRunner::run_repeatable(const Step& step, const Backend::Pass& pass) {
  const std::int64_t rows = row_bucket(step.ids.size());
  std::int64_t tokens = 0;
  for (const SequenceRows& s : step.sequences.host) tokens = std::max(tokens, s.start + s.n_rows);
  Recorded& recorded = by_size_[{rows, token_bucket(tokens)}];
  const Step staged = recorded.inputs.stage(stream_, step, rows);
  if (recorded.inputs.moved()) recorded.graph.reset();
  const While in_pass(repeatable_);
  if (!std::exchange(recorded.warm, true)) return pass(staged);
  if (recorded.graph == nullptr) {
    recorded.logits = Tensor();
    recorded.graph = record(staged, pass, recorded.logits);
  } else {
    ++replays_;
  }
  check_cuda(cudaGraphLaunch(recorded.graph.get(), stream_.get()), "launching a recorded pass");
  return recorded.logits;
}

PassRunner::Graph PassRunner::record(const Step& staged, const Backend::Pass& pass,
                                     Tensor& logits) {
  const While in_recording(recording_);
  check_cuda(cudaStreamBeginCapture(stream_.get(), cudaStreamCaptureModeThreadLocal),
             "starting to record a pass");
  cudaGraph_t captured = nullptr;
  try {
    logits = pass(staged);
  } catch (...) {
    cudaStreamEndCapture(stream_.get(), &captured);
    if (captured != nullptr) cudaGraphDestroy(captured);
    throw;
  }
  check_cuda(cudaStreamEndCapture(stream_.get(), &captured), "recording a pass");
  cudaGraphExec_t graph = nullptr;
  const cudaError_t code = cudaGraphInstantiate(&graph, captured, 0);
  cudaGraphDestroy(captured);
  check_cuda(code, "preparing a recorded pass");
  return Graph(graph);
}

// The graphs alone: to free memory is to wait for the device, and a communicator whose kernels wait
// for a rank that is gone forgets the passes before it can end them.
void PassRunner::forget() {
  for (auto& [size, recorded] : by_size_) {
    recorded.graph.reset();
    recorded.warm = false;
  }
}

}  // namespace shardlm::cuda
