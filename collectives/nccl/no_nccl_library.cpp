#include "collectives/nccl/nccl_library.h"

namespace nqd::collectives {

NcclLibrary nccl_library() { return {false, "", "built with NQD_WITH_NCCL=OFF"}; }

}  // namespace nqd::collectives
