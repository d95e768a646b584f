// engine/cpu/pooling.h on a device: the same arguments, after the stream that they run on, and the
// same bits; and rows that repeat. Pointers are of device memory. S is float, BFloat16 or Float16.
#pragma once

#include <cstdint>

#include "engine/cpu/pooling.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

template <typename S>
void mean_rows(StreamHandle stream, S* out, const S* in, const cpu::PoolingShape& shape);
void mean_rows_backward(StreamHandle stream, float* d_in, const float* d_out,
                        std::int64_t first_row, std::int64_t rows, std::int64_t steps,
                        std::int64_t width);

// Every row of out [rows, width], `stride` elements apart, becomes `row` [width].
template <typename S>
void spread_row(StreamHandle stream, S* out, std::int64_t stride, const S* row, std::int64_t rows,
                std::int64_t width);
// The same, widened; S is BFloat16 or Float16.
template <typename S>
void spread_widened_row(StreamHandle stream, float* out, std::int64_t stride, const S* row,
                        std::int64_t rows, std::int64_t width);

}  // namespace nqd::engine::cuda
