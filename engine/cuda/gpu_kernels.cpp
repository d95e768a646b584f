#include "engine/cuda/gpu_kernels.h"

#include <type_traits>

#include "engine/cuda/kernels/activations.h"
#include "engine/cuda/kernels/attention.h"
#include "engine/cuda/kernels/convert.h"
#include "engine/cuda/kernels/cross_entropy.h"
#include "engine/cuda/kernels/epilogue.h"
#include "engine/cuda/kernels/lookup.h"
#include "engine/cuda/kernels/norms.h"
#include "engine/cuda/kernels/pooling.h"
#include "engine/cuda/kernels/rotary.h"
#include "engine/cuda/streams.h"
#include "engine/device/products.h"

namespace nqd::engine::cuda {

// The old buffer goes back first: what comes next on the stream may have it.
void Scratch::grow(std::size_t bytes) {
  buffer_ = {};
  buffer_ = pool_.allocate(MemoryTag::kWorkspace, bytes);
  ++growths_;
}

template <typename S>
void GpuKernels<S>::layer_norm_forward(S* y, float* mean, float* rstd, const S* x, const S* weight,
                                       const S* bias, const cpu::NormShape& shape) {
  cuda::layer_norm_forward(stream_, y, mean, rstd, x, weight, bias, shape);
}

template <typename S>
void GpuKernels<S>::layer_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x,
                                              const S* weight, const float* mean, const float* rstd,
                                              const cpu::NormShape& shape) {
  cuda::layer_norm_backward_input(stream_, dx, residual, dy, x, weight, mean, rstd, shape);
}

template <typename S>
void GpuKernels<S>::layer_norm_backward_weight(float* weight_gradient, float* bias_gradient,
                                               const S* dy, const S* x, const float* mean,
                                               const float* rstd, const cpu::NormShape& shape,
                                               std::int64_t blocks) {
  float* const room = scratch_.of<float>(column_sums_scratch(2, shape.rows, shape.width, blocks));
  cuda::layer_norm_backward_weight(stream_, weight_gradient, bias_gradient, dy, x, mean, rstd,
                                   shape, blocks, room);
}

template <typename S>
void GpuKernels<S>::rms_norm_forward(S* y, float* rstd, const S* x, const S* weight,
                                     const cpu::NormShape& shape) {
  cuda::rms_norm_forward(stream_, y, rstd, x, weight, shape);
}

template <typename S>
void GpuKernels<S>::rms_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x,
                                            const S* weight, const float* rstd,
                                            const cpu::NormShape& shape) {
  cuda::rms_norm_backward_input(stream_, dx, residual, dy, x, weight, rstd, shape);
}

template <typename S>
void GpuKernels<S>::rms_norm_backward_weight(float* weight_gradient, const S* dy, const S* x,
                                             const float* rstd, const cpu::NormShape& shape,
                                             std::int64_t blocks) {
  float* const room = scratch_.of<float>(column_sums_scratch(1, shape.rows, shape.width, blocks));
  cuda::rms_norm_backward_weight(stream_, weight_gradient, dy, x, rstd, shape, blocks, room);
}

template <typename S>
void GpuKernels<S>::add_column_sums(float* sums, const S* x, std::int64_t rows, std::int64_t width,
                                    std::int64_t stride, std::int64_t blocks) {
  float* const room = scratch_.of<float>(column_sums_scratch(1, rows, width, blocks));
  cuda::add_column_sums(stream_, sums, x, rows, width, stride, blocks, room);
}

template <typename S>
void GpuKernels<S>::gelu(S* y, const S* x, std::int64_t count) {
  cuda::gelu(stream_, y, x, count);
}

template <typename S>
void GpuKernels<S>::gelu_backward(S* dx, const S* dy, const S* x, std::int64_t count) {
  cuda::gelu_backward(stream_, dx, dy, x, count);
}

template <typename S>
void GpuKernels<S>::swiglu(S* y, const S* x, std::int64_t rows, std::int64_t width) {
  cuda::swiglu(stream_, y, x, rows, width);
}

template <typename S>
void GpuKernels<S>::swiglu_backward(S* dx, const S* dy, const S* x, std::int64_t rows,
                                    std::int64_t width) {
  cuda::swiglu_backward(stream_, dx, dy, x, rows, width);
}

template <typename S>
void GpuKernels<S>::rotary_forward(S* x, const float* cosines, const float* sines,
                                   const cpu::RotaryShape& shape) {
  cuda::rotary_forward(stream_, x, cosines, sines, shape);
}

template <typename S>
void GpuKernels<S>::rotary_backward(S* d, const float* cosines, const float* sines,
                                    const cpu::RotaryShape& shape) {
  cuda::rotary_backward(stream_, d, cosines, sines, shape);
}

template <typename S>
void GpuKernels<S>::attention_forward(S* out, float* lse, const S* q, const S* k, const S* v,
                                      const cpu::AttentionLayout& layout,
                                      const cpu::AttentionDropout* dropout, float*) {
  if (dropout == nullptr && fused_attention_ != nullptr &&
      fused_attention_->forward({type_of<S>(), layout, q, k, v, out, lse})) {
    return;
  }
  cuda::attention_forward(stream_, out, lse, q, k, v, layout, dropout);
}

template <typename S>
void GpuKernels<S>::attention_backward(S* dq, S* dk, S* dv, const S* d_out, const S* out,
                                       const float* lse, const S* q, const S* k, const S* v,
                                       const cpu::AttentionLayout& layout,
                                       const cpu::AttentionDropout* dropout, float*) {
  // Backward reads what forward kept.
  const AttentionOperands kept{type_of<S>(),           layout, q, k, v, const_cast<S*>(out),
                               const_cast<float*>(lse)};
  if (dropout == nullptr && fused_attention_ != nullptr &&
      fused_attention_->backward(kept, {d_out, dq, dk, dv})) {
    return;
  }
  float* const room = scratch_.of<float>(cuda::attention_backward_scratch(layout));
  cuda::attention_backward(stream_, dq, dk, dv, d_out, out, lse, q, k, v, layout, dropout, room);
}

template <typename S>
void GpuKernels<S>::bias_dropout_residual(S* out, const float* product, const S* bias,
                                          const S* residual, std::int64_t rows, std::int64_t width,
                                          const cpu::Dropout* dropout, std::int64_t first_row) {
  cuda::bias_dropout_residual(stream_, out, product, bias, residual, rows, width, dropout,
                              first_row);
}

template <typename S>
void GpuKernels<S>::apply_dropout(S* y, const S* x, const cpu::Dropout& dropout, std::int64_t first,
                                  std::int64_t count) {
  cuda::apply_dropout(stream_, y, x, dropout, first, count);
}

template <typename S>
void GpuKernels<S>::token_lookup(S* out, const std::int32_t* tokens, const S* table,
                                 const cpu::VocabularyRange& range, std::int64_t rows,
                                 std::int64_t width) {
  cuda::token_lookup(stream_, out, tokens, table, range, rows, width);
}

template <typename S>
void GpuKernels<S>::token_lookup_backward(float* table_gradient, const S* d_out,
                                          const std::int32_t* tokens,
                                          const cpu::VocabularyRange& range, std::int64_t rows,
                                          std::int64_t width) {
  auto* const room = scratch_.of<std::int32_t>(token_lookup_backward_scratch(rows));
  cuda::token_lookup_backward(stream_, table_gradient, d_out, tokens, range, rows, width, room);
}

template <typename S>
void GpuKernels<S>::add_positions(S* x, const S* positions, std::int64_t first_row,
                                  std::int64_t rows, std::int64_t sequence, std::int64_t width) {
  cuda::add_positions(stream_, x, positions, first_row, rows, sequence, width);
}

template <typename S>
void GpuKernels<S>::add_positions_backward(float* positions_gradient, const S* d_x,
                                           std::int64_t first_row, std::int64_t rows,
                                           std::int64_t sequence, std::int64_t width,
                                           std::int64_t blocks) {
  cuda::add_positions_backward(stream_, positions_gradient, d_x, first_row, rows, sequence, width,
                               blocks);
}

template <typename S>
void GpuKernels<S>::mean_rows(S* out, const S* in, const cpu::PoolingShape& shape) {
  cuda::mean_rows(stream_, out, in, shape);
}

template <typename S>
void GpuKernels<S>::mean_rows_backward(float* d_in, const float* d_out, std::int64_t first_row,
                                       std::int64_t rows, std::int64_t steps, std::int64_t width) {
  cuda::mean_rows_backward(stream_, d_in, d_out, first_row, rows, steps, width);
}

template <typename S>
void GpuKernels<S>::cross_entropy_maximum(float* maximum, const float* logits,
                                          const cpu::LogitsShape& shape) {
  cuda::cross_entropy_maximum(stream_, maximum, logits, shape);
}

template <typename S>
void GpuKernels<S>::cross_entropy_sums(float* sum, float* target_logit, const float* logits,
                                       const std::int32_t* targets, const float* maximum,
                                       const cpu::LogitsShape& shape) {
  cuda::cross_entropy_sums(stream_, sum, target_logit, logits, targets, maximum, shape);
}

template <typename S>
void GpuKernels<S>::cross_entropy_statistics(float* maximum, float* sum, float* target_logit,
                                             const float* logits, const std::int32_t* targets,
                                             const cpu::LogitsShape& shape) {
  cuda::cross_entropy_statistics(stream_, maximum, sum, target_logit, logits, targets, shape);
}

template <typename S>
void GpuKernels<S>::cross_entropy_losses(double* loss, const float* maximum, const float* sum,
                                         const float* target_logit, const std::int32_t* targets,
                                         std::int64_t rows) {
  cuda::cross_entropy_losses(stream_, loss, maximum, sum, target_logit, targets, rows);
}

template <typename S>
void GpuKernels<S>::cross_entropy_backward(float* logits, const std::int32_t* targets,
                                           const float* maximum, const float* sum, float scale,
                                           const cpu::LogitsShape& shape) {
  cuda::cross_entropy_backward(stream_, logits, targets, maximum, sum, scale, shape);
}

template <typename S>
void GpuKernels<S>::cross_entropy_backward_narrow(float* logits, const std::int32_t* targets,
                                                  const float* maximum, const float* sum,
                                                  float scale, const cpu::LogitsShape& shape) {
  if constexpr (std::is_same_v<S, float>) {
    cuda::cross_entropy_backward(stream_, logits, targets, maximum, sum, scale, shape);
  } else {
    cuda::cross_entropy_backward_narrow<S>(stream_, logits, targets, maximum, sum, scale, shape);
  }
}

template <typename S>
void GpuKernels<S>::spread_row(S* out, std::int64_t stride, const S* row, std::int64_t rows,
                               std::int64_t width) {
  cuda::spread_row(stream_, out, stride, row, rows, width);
}

template <typename S>
void GpuKernels<S>::spread_to_logits(float* logits, const S* row, std::int64_t rows,
                                     std::int64_t width) {
  if constexpr (std::is_same_v<S, float>) {
    cuda::spread_row(stream_, logits, width, row, rows, width);
  } else {
    cuda::spread_widened_row(stream_, logits, width, row, rows, width);
  }
}

template <typename S>
void GpuKernels<S>::add_logit_sums(float* sums, const float* d_logits, std::int64_t rows,
                                   std::int64_t width) {
  float* const room = scratch_.of<float>(column_sums_scratch(1, rows, width, 1));
  cuda::add_column_sums(stream_, sums, d_logits, rows, width, width, 1, room);
}

template <typename S>
void GpuKernels<S>::narrow(S* to, const float* from, std::int64_t count) {
  if constexpr (std::is_same_v<S, float>) {
    copy_async(stream_, to, from, static_cast<std::size_t>(count) * sizeof(float));
  } else {
    cuda::narrow_all(stream_, to, from, count);
  }
}

template class GpuKernels<float>;
template class GpuKernels<BFloat16>;
template class GpuKernels<Float16>;

}  // namespace nqd::engine::cuda
