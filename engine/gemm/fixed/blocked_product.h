// One thread's fixed-order product: blocks that fit the caches, packed operands, tiles.
#pragma once

#include <cstdint>

#include "engine/gemm/fixed/fixed_gemm.h"
#include "engine/gemm/fixed/kernels.h"

namespace nqd::engine::fixed {

// Floats of scratch that one thread needs, whatever the product.
std::int64_t scratch_floats();

// Computes `product` on the calling thread; its slices cover k. `scratch` holds scratch_floats().
void blocked_product(const KernelSet& kernels, const FixedProduct& product, float* scratch);

}  // namespace nqd::engine::fixed
