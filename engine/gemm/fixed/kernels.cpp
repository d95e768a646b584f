#include "engine/gemm/fixed/kernels.h"

namespace nqd::engine::fixed {

const KernelSet* find_kernels(std::string_view name) {
  for (const KernelSet* set : {&portable_kernels(), avx2_kernels(), avx512_kernels()}) {
    if (set != nullptr && name == set->name) return set;
  }
  return nullptr;
}

const KernelSet& best_kernels() {
  if (const KernelSet* set = avx512_kernels()) return *set;
  if (const KernelSet* set = avx2_kernels()) return *set;
  return portable_kernels();
}

}  // namespace nqd::engine::fixed
