// Elementwise reduction of two vectors, for every element type and operator.
#pragma once

#include <cstddef>
#include <span>

#include "base/dtype.h"
#include "collectives/types.h"

namespace nqd::collectives {

// out = a op b. `out` may be `a` or `b`; sizes are equal. Integer sums and products wrap.
// Half-width floats are computed in float32 and rounded to nearest even. kAvg adds; divide_by
// finishes it. Minimum and maximum keep `b` when `a` is a NaN.
void reduce(std::span<std::byte> out, std::span<const std::byte> a, std::span<const std::byte> b,
            DType type, ReduceOp op);

// Divides every element of a floating type by `divisor` (correctly rounded, not times 1/divisor).
void divide_by(std::span<std::byte> data, DType type, int divisor);

// Throws Error (kUsage, NQD2103) for kAvg of an integer type, or sizes that are not whole elements
// or do not agree.
void check_reduction(std::size_t in_bytes, std::size_t out_bytes, DType type, ReduceOp op);

}  // namespace nqd::collectives
