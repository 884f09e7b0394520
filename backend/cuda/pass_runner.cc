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

/// What is enqueued on the stream while it lives becomes a graph instead of work.
class Capture {
 public:
  explicit Capture(cudaStream_t stream) : stream_(stream) {
    check_cuda(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal),
               "starting to record a pass");
  }
  ~Capture() {
    if (!ended_) cudaStreamEndCapture(stream_, &graph_);  // the pass threw
    if (graph_ != nullptr) cudaGraphDestroy(graph_);
  }
  Capture(const Capture&) = delete;
  Capture& operator=(const Capture&) = delete;

  cudaGraphExec_t instantiate() {
    ended_ = true;
    check_cuda(cudaStreamEndCapture(stream_, &graph_), "recording a pass");
    cudaGraphExec_t graph = nullptr;
    check_cuda(cudaGraphInstantiate(&graph, graph_, 0), "preparing a recorded pass");
    return graph;
  }

 private:
  cudaStream_t stream_;
  cudaGraph_t graph_ = nullptr;
  bool ended_ = false;
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
  Capture capture(stream_.get());
  logits = pass(staged);
  return Graph(capture.instantiate());
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
