// engine/cpu/activations.h on a device: the same arguments, after the stream that they run on.
// Pointers are of device memory. S is float, BFloat16 or Float16.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

template <typename S>
void gelu(StreamHandle stream, S* y, const S* x, std::int64_t n);
template <typename S>
void gelu_backward(StreamHandle stream, S* dx, const S* dy, const S* x, std::int64_t n);
template <typename S>
void swiglu(StreamHandle stream, S* y, const S* x, std::int64_t rows, std::int64_t width);
template <typename S>
void swiglu_backward(StreamHandle stream, S* dx, const S* dy, const S* x, std::int64_t rows,
                     std::int64_t width);

}  // namespace nqd::engine::cuda
