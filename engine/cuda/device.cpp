#include "engine/cuda/device.h"

#include <cuda_runtime_api.h>

namespace nqd::engine {
namespace {

std::string version_text(int version) {
  return std::to_string(version / 1000) + "." + std::to_string(version % 1000 / 10);
}

}  // namespace

std::uint64_t cuda_free_bytes(int index) {
  int before = 0;
  std::size_t free = 0;
  std::size_t total = 0;
  if (cudaGetDevice(&before) != cudaSuccess || cudaSetDevice(index) != cudaSuccess) return 0;
  if (cudaMemGetInfo(&free, &total) != cudaSuccess) free = 0;
  cudaSetDevice(before);
  return free;
}

CudaStatus cuda_status() {
  CudaStatus status;
  status.built = true;
  int version = 0;
  if (cudaRuntimeGetVersion(&version) == cudaSuccess)
    status.runtime_version = version_text(version);
  // 0 where there is no driver.
  if (cudaDriverGetVersion(&version) == cudaSuccess && version > 0)
    status.driver_version = version_text(version);
  int count = 0;
  if (const cudaError_t error = cudaGetDeviceCount(&count); error != cudaSuccess) {
    status.reason = cudaGetErrorString(error);
    return status;
  }
  for (int i = 0; i < count; ++i) {
    cudaDeviceProp properties{};
    if (cudaGetDeviceProperties(&properties, i) != cudaSuccess) {
      static_cast<void>(cudaGetLastError());  // else the next launch would be blamed for it
      continue;
    }
    status.devices.push_back(
        {properties.name, properties.major, properties.minor, properties.totalGlobalMem});
  }
  if (status.devices.empty()) status.reason = "no CUDA device is visible";
  return status;
}

}  // namespace nqd::engine
