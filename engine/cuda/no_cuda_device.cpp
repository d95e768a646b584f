#include "base/error.h"
#include "engine/cuda/device.h"
#include "engine/cuda/make_cuda_device.h"

namespace nqd::engine {

std::unique_ptr<Device> make_cuda_device(int, std::function<std::string()>) {
  throw Error(ExitCode::kEnvironment, "NQD3060", "no CUDA device: " + cuda_status().reason,
              "configure with `cmake --preset cuda`, or train on the CPU (--device cpu)");
}

}  // namespace nqd::engine
