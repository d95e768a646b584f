#include "engine/cuda/kernels/optimizer.h"

#include "engine/cuda/kernels/bodies/optimizer.h"
#include "engine/cuda/kernels/launch.cuh"

namespace nqd::engine::cuda {

void adamw_step(StreamHandle stream, float* weights, const float* gradients, float* m, float* v,
                std::int64_t n, std::int64_t step, const AdamwOptions& options) {
  bodies::adamw_step(Launch(stream), weights, gradients, m, v, n, step, options);
}
template <typename S>
void adamw_step(StreamHandle stream, float* weights, S* stored, const float* gradients, float* m,
                float* v, std::int64_t n, std::int64_t step, const AdamwOptions& options) {
  bodies::adamw_step(Launch(stream), weights, stored, gradients, m, v, n, step, options);
}
void adamw_step_stochastic(StreamHandle stream, BFloat16* weights, const float* gradients, float* m,
                           float* v, std::int64_t n, std::int64_t step, const AdamwOptions& options,
                           std::uint64_t seed, std::int64_t first) {
  bodies::adamw_step_stochastic(Launch(stream), weights, gradients, m, v, n, step, options, seed,
                                first);
}

void sgd_step(StreamHandle stream, float* weights, const float* gradients, float* velocity,
              std::int64_t n, const SgdOptions& options) {
  bodies::sgd_step(Launch(stream), weights, gradients, velocity, n, options);
}
template <typename S>
void sgd_step(StreamHandle stream, float* weights, S* stored, const float* gradients,
              float* velocity, std::int64_t n, const SgdOptions& options) {
  bodies::sgd_step(Launch(stream), weights, stored, gradients, velocity, n, options);
}

void ema_step(StreamHandle stream, float* average, const float* weights, std::int64_t n,
              float decay) {
  bodies::ema_step(Launch(stream), average, weights, n, decay);
}

std::int64_t sum_of_squares_scratch(std::int64_t n) { return divide_up(n, bodies::kNormChunk); }
void sum_of_squares(StreamHandle stream, double* sum, const float* x, std::int64_t n,
                    double* scratch) {
  bodies::sum_of_squares(Launch(stream), sum, x, n, scratch);
}

#define NQD_INSTANTIATE(S)                                                                \
  template void adamw_step<S>(StreamHandle, float*, S*, const float*, float*, float*,     \
                              std::int64_t, std::int64_t, const AdamwOptions&);           \
  template void sgd_step<S>(StreamHandle, float*, S*, const float*, float*, std::int64_t, \
                            const SgdOptions&)

NQD_INSTANTIATE(BFloat16);
NQD_INSTANTIATE(Float16);

}  // namespace nqd::engine::cuda
