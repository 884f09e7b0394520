// Capture into graphs, and launching them.
#include <algorithm>
#include <memory>
#include <set>
#include <utility>

#include "tests/gpu/doubles/graph_run.h"
#include "tests/gpu/doubles/runtime.h"

struct CUgraph_st {
  std::vector<shardlm::doubles::Node> nodes;
};

struct CUgraphExec_st {
  std::shared_ptr<shardlm::doubles::GraphRun> run;
  std::shared_ptr<shardlm::doubles::Completion> last;  // a graph never runs beside itself
};

namespace shardlm::doubles {
namespace {

// Every node must lead to the stream that the capture began in, or its work would be lost.
bool joined(const Capture& capture, const std::vector<int>& tail) {
  std::set<int> reached;
  std::vector<int> open = tail;
  while (!open.empty()) {
    const int i = open.back();
    open.pop_back();
    if (!reached.insert(i).second) continue;
    const auto& before = capture.nodes[static_cast<std::size_t>(i)].after;
    open.insert(open.end(), before.begin(), before.end());
  }
  return reached.size() == capture.nodes.size();
}

cudaError_t begin_capture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  CUstream_st* s = find_stream(stream);
  if (s == nullptr) return cudaErrorStreamCaptureUnsupported;  // nor can CUDA's default stream
  if (s->capture != nullptr) return cudaErrorIllegalState;
  s->capture = std::make_shared<Capture>();
  s->capture->mode = mode;
  s->capture->thread = thread_name();
  s->origin = true;
  s->tail.clear();
  r.captures.insert(s->capture);
  return cudaSuccess;
}

cudaError_t end_capture(cudaStream_t stream, cudaGraph_t* graph) {
  Runtime& r = runtime();
  const Lock lock(r.mutex);
  CUstream_st* s = find_stream(stream);
  if (s == nullptr || s->capture == nullptr || !s->origin) return cudaErrorStreamCaptureUnmatched;
  const std::shared_ptr<Capture> capture = s->capture;
  if (capture->mode != cudaStreamCaptureModeRelaxed && capture->thread != thread_name())
    return cudaErrorStreamCaptureWrongThread;
  const bool complete = joined(*capture, s->tail);
  for (const auto& [handle, t] : r.streams)
    if (t->capture == capture) {
      t->capture = nullptr;
      t->origin = false;
      t->tail.clear();
    }
  r.captures.erase(capture);
  if (capture->invalid) return cudaErrorStreamCaptureInvalidated;
  if (!complete) return cudaErrorStreamCaptureUnjoined;
  *graph = std::make_unique<CUgraph_st>(CUgraph_st{std::move(capture->nodes)}).release();
  return cudaSuccess;
}

// The records that one launch makes and waits for: those of the moment of the launch.
std::vector<std::shared_ptr<Completion>> events_of(const std::vector<Node>& nodes) {
  std::vector<std::shared_ptr<Completion>> events(nodes.size());
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    if (CUevent_st* e = find_event(nodes[i].records)) {
      e->last = events[i] = std::make_shared<Completion>();
      e->captured = false;
    } else if (nodes[i].records != nullptr) {
      events[i] = std::make_shared<Completion>();  // destroyed since: nobody looks
    }
    if (const CUevent_st* e = find_event(nodes[i].waits)) events[i] = e->last;
  }
  return events;
}

cudaError_t launch_graph(cudaGraphExec_t exec, cudaStream_t stream) {
  Runtime& r = runtime();
  std::shared_ptr<WorkQueue> queue;
  std::shared_ptr<Completion> previous;
  const auto end = std::make_shared<Completion>();
  std::vector<std::shared_ptr<Completion>> events;
  int device = 0;
  {
    const Lock lock(r.mutex);
    CUstream_st* s = find_stream(stream);
    if (s == nullptr) return cudaErrorInvalidResourceHandle;
    if (s->capture != nullptr) {  // a graph inside a graph: the double has none
      s->capture->invalid = true;
      return cudaErrorNotSupported;
    }
    r.trace += "graph;";
    events = events_of(exec->run->nodes());
    previous = std::exchange(exec->last, end);
    queue = s->queue;
    device = s->device;
  }
  queue->push([=, run = exec->run, records = std::move(events)] {
    if (previous != nullptr) previous->wait();
    run->run(device, records);
    end->set();
  });
  return cudaSuccess;
}

}  // namespace
}  // namespace shardlm::doubles

using namespace shardlm::doubles;

extern "C" {

cudaError_t cudaStreamBeginCapture(cudaStream_t stream, cudaStreamCaptureMode mode) {
  if (const cudaError_t error = enter("cudaStreamBeginCapture")) return error;
  return report(begin_capture(stream, mode));
}

cudaError_t cudaStreamEndCapture(cudaStream_t stream, cudaGraph_t* graph) {
  *graph = nullptr;
  const cudaError_t injected = enter("cudaStreamEndCapture");
  const cudaError_t error = end_capture(stream, graph);
  return injected != cudaSuccess ? injected : report(error);
}

cudaError_t cudaStreamIsCapturing(cudaStream_t stream, cudaStreamCaptureStatus* status) {
  if (const cudaError_t error = enter("cudaStreamIsCapturing")) return error;
  const Lock lock(runtime().mutex);
  const CUstream_st* s = find_stream(stream);
  if (s == nullptr) return report(cudaErrorInvalidResourceHandle);
  *status = s->capture == nullptr ? cudaStreamCaptureStatusNone
            : s->capture->invalid ? cudaStreamCaptureStatusInvalidated
                                  : cudaStreamCaptureStatusActive;
  return cudaSuccess;
}

cudaError_t cudaGraphInstantiate(cudaGraphExec_t* exec, cudaGraph_t graph, unsigned long long) {
  if (const cudaError_t error = enter_unsafe("cudaGraphInstantiate")) return error;
  if (graph == nullptr) return report(cudaErrorInvalidValue);
  auto e = std::make_unique<CUgraphExec_st>();
  e->run = std::make_shared<GraphRun>(graph->nodes);
  *exec = e.release();
  return cudaSuccess;
}

cudaError_t cudaGraphLaunch(cudaGraphExec_t exec, cudaStream_t stream) {
  if (const cudaError_t error = enter("cudaGraphLaunch")) return error;
  if (exec == nullptr) return report(cudaErrorInvalidValue);
  return report(launch_graph(exec, stream));
}

cudaError_t cudaGraphGetNodes(cudaGraph_t graph, cudaGraphNode_t* nodes, std::size_t* count) {
  if (graph == nullptr || nodes != nullptr) return report(cudaErrorInvalidValue);  // only counts
  *count = graph->nodes.size();
  return cudaSuccess;
}

cudaError_t cudaGraphDestroy(cudaGraph_t graph) {
  if (graph == nullptr) return report(cudaErrorInvalidValue);
  const std::unique_ptr<CUgraph_st> owned(graph);
  return cudaSuccess;
}

cudaError_t cudaGraphExecDestroy(cudaGraphExec_t exec) {
  if (exec == nullptr) return report(cudaErrorInvalidValue);
  const shardlm::emu::Unordered unordered;  // a launch in flight shares the graph
  const std::unique_ptr<CUgraphExec_st> owned(exec);
  return cudaSuccess;
}

}  // extern "C"
