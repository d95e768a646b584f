#include "engine/cuda/device.h"

namespace nqd::engine {

CudaStatus cuda_status() {
  CudaStatus status;
  status.reason = "built with NQD_WITH_CUDA=OFF";
  return status;
}

std::uint64_t cuda_free_bytes(int) { return 0; }

CudaProductLibrary cuda_product_library() { return {"", "built with NQD_WITH_CUDA=OFF"}; }

}  // namespace nqd::engine
