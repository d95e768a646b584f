// What the files that are compiled for x86-64 CPUs of a kind give to x86.cpp, which asks the CPU.
#pragma once

#include "engine/gemm/fixed/kernels.h"

namespace nqd::engine::fixed {

extern const KernelSet kAvx2Kernels;
extern const KernelSet kAvx512Kernels;
void pack_avx2(const Packing& packing);

}  // namespace nqd::engine::fixed
