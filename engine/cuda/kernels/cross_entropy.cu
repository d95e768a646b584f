#include "engine/cuda/kernels/cross_entropy.h"

#include "engine/cuda/kernels/bodies/cross_entropy.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

template <typename S>
void cross_entropy_maximum(StreamHandle stream, float* maximum, const S* logits,
                           const cpu::LogitsShape& shape) {
  bodies::cross_entropy_maximum(Launch(stream), maximum, logits, shape);
}
template <typename S>
void cross_entropy_sums(StreamHandle stream, float* sum, float* target_logit, const S* logits,
                        const std::int32_t* targets, const float* maximum,
                        const cpu::LogitsShape& shape) {
  bodies::cross_entropy_sums(Launch(stream), sum, target_logit, logits, targets, maximum, shape);
}
template <typename S>
void cross_entropy_statistics(StreamHandle stream, float* maximum, float* sum, float* target_logit,
                              const S* logits, const std::int32_t* targets,
                              const cpu::LogitsShape& shape) {
  bodies::cross_entropy_statistics(Launch(stream), maximum, sum, target_logit, logits, targets,
                                   shape);
}
void cross_entropy_losses(StreamHandle stream, double* loss, const float* maximum, const float* sum,
                          const float* target_logit, const std::int32_t* targets,
                          std::int64_t rows) {
  bodies::cross_entropy_losses(Launch(stream), loss, maximum, sum, target_logit, targets, rows);
}
template <typename S>
void cross_entropy_backward(StreamHandle stream, S* logits, const std::int32_t* targets,
                            const float* maximum, const float* sum, float scale,
                            const cpu::LogitsShape& shape) {
  bodies::cross_entropy_backward(Launch(stream), logits, targets, maximum, sum, scale, shape);
}

template <typename S>
void cross_entropy_backward_narrow(StreamHandle stream, float* logits, const std::int32_t* targets,
                                   const float* maximum, const float* sum, float scale,
                                   const cpu::LogitsShape& shape) {
  bodies::cross_entropy_backward_narrow<S>(Launch(stream), logits, targets, maximum, sum, scale,
                                           shape);
}

template void cross_entropy_backward_narrow<BFloat16>(StreamHandle, float*, const std::int32_t*,
                                                      const float*, const float*, float,
                                                      const cpu::LogitsShape&);
template void cross_entropy_backward_narrow<Float16>(StreamHandle, float*, const std::int32_t*,
                                                     const float*, const float*, float,
                                                     const cpu::LogitsShape&);

#define NQD_INSTANTIATE(S)                                                                         \
  template void cross_entropy_maximum<S>(StreamHandle, float*, const S*, const cpu::LogitsShape&); \
  template void cross_entropy_sums<S>(StreamHandle, float*, float*, const S*, const std::int32_t*, \
                                      const float*, const cpu::LogitsShape&);                      \
  template void cross_entropy_statistics<S>(StreamHandle, float*, float*, float*, const S*,        \
                                            const std::int32_t*, const cpu::LogitsShape&);         \
  template void cross_entropy_backward<S>(StreamHandle, S*, const std::int32_t*, const float*,     \
                                          const float*, float, const cpu::LogitsShape&)

NQD_INSTANTIATE(float);
NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda
