// engine/cpu/epilogue.h, and apply_dropout of engine/cpu/dropout.h, on a device: the same
// arguments, after the stream that they run on, and the same bits. Pointers are of device memory,
// but `dropout` is read on the host. S is float, BFloat16 or Float16.
#pragma once

#include <cstdint>

#include "engine/cpu/dropout.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

template <typename S>
void apply_dropout(StreamHandle stream, S* y, const S* x, const cpu::Dropout& dropout,
                   std::int64_t first, std::int64_t n);

template <typename S>
void bias_dropout_residual(StreamHandle stream, S* out, const float* product, const S* bias,
                           const S* residual, std::int64_t rows, std::int64_t width,
                           const cpu::Dropout* dropout, std::int64_t first_row);

}  // namespace nqd::engine::cuda
