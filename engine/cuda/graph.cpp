#include "engine/cuda/graph.h"

#include <cuda_runtime_api.h>

#include "engine/cuda/error.h"

namespace nqd::engine::cuda {
namespace {

// The graph of a recording that has ended, until it is made executable.
class Recorded {
 public:
  Recorded() = default;
  ~Recorded() {
    if (graph != nullptr) static_cast<void>(cudaGraphDestroy(graph));
  }
  Recorded(const Recorded&) = delete;
  Recorded& operator=(const Recorded&) = delete;

  cudaGraph_t graph = nullptr;
};

}  // namespace

Graph::Graph(StreamHandle stream, const std::function<void()>& record) {
  // Of this thread alone: other ranks may be threads of the same process.
  check(cudaStreamBeginCapture(stream, cudaStreamCaptureModeThreadLocal), "cudaStreamBeginCapture");
  Recorded recorded;
  try {
    record();
  } catch (...) {
    static_cast<void>(cudaStreamEndCapture(stream, &recorded.graph));
    static_cast<void>(cudaGetLastError());  // the recording that was broken off
    throw;
  }
  check(cudaStreamEndCapture(stream, &recorded.graph), "cudaStreamEndCapture");
  check(cudaGraphInstantiate(&handle_, recorded.graph, 0), "cudaGraphInstantiate");
}

Graph::~Graph() {
  if (handle_ != nullptr) static_cast<void>(cudaGraphExecDestroy(handle_));
}

void Graph::launch(StreamHandle stream) const {
  check(cudaGraphLaunch(handle_, stream), "cudaGraphLaunch");
}

}  // namespace nqd::engine::cuda
