// The element-wise functions between the two products of an MLP.
#pragma once

#include <cstdint>

#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

// y = gelu(x) in the tanh form of GPT-2 (engine/cpu/gelu.h).
template <typename S>
void gelu(S* y, const S* x, std::int64_t n);

// dx = dy · gelu'(x); dx may be dy.
template <typename S>
void gelu_backward(S* dx, const S* dy, const S* x, std::int64_t n);

// y [rows, width] = g / (1 + e^(−g)) · u (Shazeer 2020) of rows [g | u] of x [rows, 2 · width].
template <typename S>
void swiglu(S* y, const S* x, std::int64_t rows, std::int64_t width);

// dx [rows, 2 · width] from dy [rows, width]; dx may be x.
template <typename S>
void swiglu_backward(S* dx, const S* dy, const S* x, std::int64_t rows, std::int64_t width);

}  // namespace nqd::engine::cpu
