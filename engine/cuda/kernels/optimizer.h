// engine/optimizer/{adamw,sgd}.h on a device: the same updates with the same bits, over flat shards
// of n elements, after the stream that they run on. Pointers are of device memory.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "engine/cuda/handles.h"
#include "engine/optimizer/adamw.h"
#include "engine/optimizer/sgd.h"

namespace nqd::engine::cuda {

void adamw_step(StreamHandle stream, float* weights, const float* gradients, float* m, float* v,
                std::int64_t n, std::int64_t step, const AdamwOptions& options);
// Also writes the new weights to `stored`, rounded to nearest even. S is BFloat16 or Float16.
template <typename S>
void adamw_step(StreamHandle stream, float* weights, S* stored, const float* gradients, float* m,
                float* v, std::int64_t n, std::int64_t step, const AdamwOptions& options);

// The update of bfloat16 weights that have no float32 master: the new weight is rounded to one of
// its two neighbours, to the upper one with the probability of its distance from the lower one, so
// that the expectation is the unrounded weight. Element first + i of the tensor draws half
// (first + i) mod 8 of Philox block (first + i) / 8, counter (block low, block high, step,
// kRoundingPlace), key `seed`: what is drawn does not depend on the cut into shards.
inline constexpr std::uint32_t kRoundingPlace = 0x524F554E;
void adamw_step_stochastic(StreamHandle stream, BFloat16* weights, const float* gradients, float* m,
                           float* v, std::int64_t n, std::int64_t step, const AdamwOptions& options,
                           std::uint64_t seed, std::int64_t first);

// `velocity` is null for plain descent.
void sgd_step(StreamHandle stream, float* weights, const float* gradients, float* velocity,
              std::int64_t n, const SgdOptions& options);
template <typename S>
void sgd_step(StreamHandle stream, float* weights, S* stored, const float* gradients,
              float* velocity, std::int64_t n, const SgdOptions& options);

void ema_step(StreamHandle stream, float* average, const float* weights, std::int64_t n,
              float decay);

// *sum = Σ x² (on the device), accumulated in double in an order that depends on n alone. `scratch`
// holds sum_of_squares_scratch(n) numbers.
std::int64_t sum_of_squares_scratch(std::int64_t n);
void sum_of_squares(StreamHandle stream, double* sum, const float* x, std::int64_t n,
                    double* scratch);

}  // namespace nqd::engine::cuda
