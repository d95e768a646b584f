// The mean of a sample's rows.
#pragma once

#include <cstdint>

#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

// Of the samples' `steps` rows each, columns [0, width) of `stride`.
struct PoolingShape {
  std::int64_t samples = 0;
  std::int64_t steps = 0;
  std::int64_t width = 0;
  std::int64_t stride = 0;  // elements between rows, of the means too
};

// out[b] = (Σ of rows b·steps … b·steps + steps − 1 of `in`) ÷ steps, added in ascending order.
template <typename S>
void mean_rows(S* out, const S* in, const PoolingShape& shape);

// d_in [rows, width] = d_out[(first_row + row) div steps] ÷ steps: a mean's gradient is shared out
// evenly. `first_row` is that of d_in among the rows of all samples.
template <typename T>
void mean_rows_backward(T* d_in, const T* d_out, std::int64_t first_row, std::int64_t rows,
                        std::int64_t steps, std::int64_t width);

}  // namespace nqd::engine::cpu
