// Cutting the flat gradient arena into the buckets that data-parallel ranks reduce. The engine
// communicates by this cut and the planner prices it.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/layout/layout.h"

namespace nqd::planner {

// Elements [begin, begin + count) of the gradient arena in parameters() order.
struct Bucket {
  std::int64_t begin = 0;
  std::int64_t count = 0;
};

// Contiguous buckets that cut the arena at tensor boundaries, from its end: backward finishes the
// last layer first. A bucket is closed when the next tensor would take it beyond `bucket_bytes`; a
// single tensor larger than that is a bucket of its own. Returned in the order in which backward
// completes them (descending begin); together they cover every element once. Empty for no tensors.
std::vector<Bucket> gradient_buckets(const std::vector<TensorSpec>& tensors,
                                     std::int64_t bucket_bytes, std::int64_t element_bytes);

}  // namespace nqd::planner
