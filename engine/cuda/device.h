// CUDA devices that this process sees. Built with NQD_WITH_CUDA; otherwise no_device.cpp answers.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nqd::engine {

struct CudaDevice {
  std::string name;
  int major = 0;  // compute capability
  int minor = 0;
  std::uint64_t memory_bytes = 0;
};

struct CudaStatus {
  bool built = false;           // this binary holds CUDA code
  std::string runtime_version;  // "13.0", empty without CUDA code
  std::string driver_version;   // the newest CUDA that the driver runs; empty without a driver
  std::vector<CudaDevice> devices;
  std::string reason;  // why `devices` is empty, in words; empty when it is not
};

// Never throws: a missing driver or device is an answer.
CudaStatus cuda_status();

// Memory of device `index` that nobody has, beside a context that this call makes where the process
// has none there; 0 when the driver does not say. Never throws.
std::uint64_t cuda_free_bytes(int index);

// The library of matrix products, which is opened where it is used.
struct CudaProductLibrary {
  std::string version;  // "cuBLASLt 13.0.2"; empty when it cannot be used
  std::string reason;   // why not
};
// Never throws.
CudaProductLibrary cuda_product_library();

}  // namespace nqd::engine
