// Changes of storage type, and the plain vector operations of a training step.
#pragma once

#include <cstdint>

#include "engine/cpu/storage.h"

namespace nqd::engine::cpu {

// to[i] = from[i], rounded to nearest, ties to even. S is BFloat16 or Float16.
template <typename S>
void narrow_all(S* to, const float* from, std::int64_t n);
template <typename S>
void widen_all(float* to, const S* from, std::int64_t n);

// to[i] += from[i].
template <typename S>
void add_all(Compute<S>* to, const S* from, std::int64_t n);
// x[i] *= factor.
template <typename T>
void scale_all(T* x, T factor, std::int64_t n);

// The index of the first infinity or NaN, or -1.
template <typename S>
std::int64_t first_non_finite(const S* x, std::int64_t n);

}  // namespace nqd::engine::cpu
