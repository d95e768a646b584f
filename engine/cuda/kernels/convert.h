// engine/cpu/convert.h on a device: the same arguments, after the stream that they run on, and the
// same bits. Pointers are of device memory.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "base/dtype.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

// S is BFloat16 or Float16.
template <typename S>
void narrow_all(StreamHandle stream, S* to, const float* from, std::int64_t n);
template <typename S>
void widen_all(StreamHandle stream, float* to, const S* from, std::int64_t n);

// From here on S may be float too.
template <typename S>
void add_all(StreamHandle stream, float* to, const S* from, std::int64_t n);
void scale_all(StreamHandle stream, float* x, float factor, std::int64_t n);

// Adds `leaf` to the first of `sums`, that to the second and so on, the sums on the left: the last
// receives the result, the others are left as they were. `sums`, at most kMostSums pointers to
// device memory, is read on the host.
inline constexpr std::size_t kMostSums = 64;
void add_through(StreamHandle stream, std::span<float* const> sums, const float* leaf,
                 std::int64_t n);

// *index (on the device) = that of the first infinity or NaN, or −1. `scratch` holds
// kNonFiniteScratch numbers.
inline constexpr std::int64_t kNonFiniteScratch = 1024;
template <typename S>
void first_non_finite(StreamHandle stream, std::int64_t* index, const S* x, std::int64_t n,
                      std::int64_t* scratch);

}  // namespace nqd::engine::cuda
