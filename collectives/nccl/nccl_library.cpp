#include "collectives/nccl/nccl_library.h"

#include <nccl.h>

namespace nqd::collectives {

NcclLibrary nccl_library() {
  NcclLibrary library;
  library.built = true;
  int version = 0;
  if (const ncclResult_t result = ncclGetVersion(&version); result != ncclSuccess) {
    library.reason = ncclGetErrorString(result);
    return library;
  }
  // NCCL_VERSION(X, Y, Z) = X·10000 + Y·100 + Z since 2.9.
  library.version = std::to_string(version / 10000) + "." + std::to_string(version % 10000 / 100) +
                    "." + std::to_string(version % 100);
  return library;
}

}  // namespace nqd::collectives
