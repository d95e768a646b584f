// engine/cpu/rotary.h on a device: the same arguments, after the stream that they run on, and the
// same bits. Pointers are of device memory; tables are those of cpu::rotary_table. S is float,
// BFloat16 or Float16.
#pragma once

#include "engine/cpu/rotary.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

template <typename S>
void rotary_forward(StreamHandle stream, S* x, const float* cosines, const float* sines,
                    const cpu::RotaryShape& shape);
template <typename S>
void rotary_backward(StreamHandle stream, S* d, const float* cosines, const float* sines,
                     const cpu::RotaryShape& shape);

}  // namespace nqd::engine::cuda
