#include "engine/gemm/fixed/x86.h"

namespace nqd::engine::fixed {

const KernelSet* avx2_kernels() {
  static const bool runs = __builtin_cpu_supports("avx2") && __builtin_cpu_supports("fma") &&
                           __builtin_cpu_supports("f16c");
  return runs ? &kAvx2Kernels : nullptr;
}

const KernelSet* avx512_kernels() {
  static const bool runs = __builtin_cpu_supports("avx512f") && avx2_kernels() != nullptr;
  return runs ? &kAvx512Kernels : nullptr;
}

}  // namespace nqd::engine::fixed
