#include "base/error.h"
#include "collectives/device/device_api.h"

namespace nqd::collectives {

DeviceApi& cuda_api() {
  throw Error(ExitCode::kEnvironment, "NQD3060",
              "this build has no CUDA, so there are no device buffers",
              "build with -DNQD_WITH_CUDA=ON where the CUDA toolkit is installed, or run on CPUs "
              "(--backend mpi, shm or local)");
}

}  // namespace nqd::collectives
