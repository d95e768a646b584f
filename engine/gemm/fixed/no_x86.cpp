// Other CPUs run the portable kernels.
#include "engine/gemm/fixed/kernels.h"

namespace nqd::engine::fixed {

const KernelSet* avx2_kernels() { return nullptr; }
const KernelSet* avx512_kernels() { return nullptr; }

}  // namespace nqd::engine::fixed
