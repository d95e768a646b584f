#include "base/error.h"
#include "collectives/nccl/nccl_api.h"

namespace nqd::collectives {

NcclApi& nccl_api() {
  throw Error(ExitCode::kEnvironment, "NQD3064", "this build has no NCCL (NQD_WITH_NCCL=OFF)",
              "build with -DNQD_WITH_CUDA=ON -DNQD_WITH_NCCL=ON where NCCL is installed, or use "
              "--backend mpi, shm or local");
}

}  // namespace nqd::collectives
