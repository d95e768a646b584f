#include "engine/cuda/device.h"

namespace nqd::engine {

CudaStatus cuda_status() {
  CudaStatus status;
  status.reason = "built with NQD_WITH_CUDA=OFF";
  return status;
}

}  // namespace nqd::engine
