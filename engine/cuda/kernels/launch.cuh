// Starts a kernel body on a stream. The host emulation of the same body is in the tests.
#pragma once

#include <cuda_runtime_api.h>

#include "engine/cuda/error.h"
#include "engine/cuda/handles.h"
#include "engine/cuda/kernels/device_block.cuh"

namespace nqd::engine::cuda {

template <typename Body>
__global__ void __launch_bounds__(Body::kThreads) kernel(const Body body) {
  DeviceBlock<Body::kThreads> block;
  body(block);
}

// A launcher (engine/cuda/kernels/body.h).
class Launch {
 public:
  explicit Launch(StreamHandle stream) : stream_(stream) {}

  template <typename Body>
  void operator()(const Body& body) const {
    const std::int64_t blocks = body.blocks();
    if (blocks == 0) return;
    require_grid(blocks);
    kernel<Body><<<static_cast<unsigned>(blocks), Body::kThreads, 0, stream_>>>(body);
    check_launch(Body::kName);
  }

 private:
  StreamHandle stream_;
};

}  // namespace nqd::engine::cuda
