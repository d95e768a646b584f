// engine/cpu/cross_entropy.h on a device: the same steps and arguments, after the stream that they
// run on. Pointers are of device memory. S is float, BFloat16 or Float16.
#pragma once

#include <cstdint>

#include "engine/cpu/cross_entropy.h"
#include "engine/cuda/handles.h"

namespace nqd::engine::cuda {

template <typename S>
void cross_entropy_maximum(StreamHandle stream, float* maximum, const S* logits,
                           const cpu::LogitsShape& shape);
// A slice's sum has the same bits on whatever rank holds it; up to 65535 slices of a rank.
template <typename S>
void cross_entropy_sums(StreamHandle stream, float* sum, float* target_logit, const S* logits,
                        const std::int32_t* targets, const float* maximum,
                        const cpu::LogitsShape& shape);
// One pass over the logits where the rank has one slice.
template <typename S>
void cross_entropy_statistics(StreamHandle stream, float* maximum, float* sum, float* target_logit,
                              const S* logits, const std::int32_t* targets,
                              const cpu::LogitsShape& shape);
void cross_entropy_losses(StreamHandle stream, double* loss, const float* maximum, const float* sum,
                          const float* target_logit, const std::int32_t* targets,
                          std::int64_t rows);
template <typename S>
void cross_entropy_backward(StreamHandle stream, S* logits, const std::int32_t* targets,
                            const float* maximum, const float* sum, float scale,
                            const cpu::LogitsShape& shape);
// S is BFloat16 or Float16.
template <typename S>
void cross_entropy_backward_narrow(StreamHandle stream, float* logits, const std::int32_t* targets,
                                   const float* maximum, const float* sum, float scale,
                                   const cpu::LogitsShape& shape);

}  // namespace nqd::engine::cuda
