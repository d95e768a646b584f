#include "engine/device/cpu_kernels.h"

#include <algorithm>
#include <type_traits>

#include "engine/cpu/activations.h"
#include "engine/cpu/convert.h"
#include "engine/cpu/epilogue.h"
#include "planner/layout/activation_buffers.h"

namespace nqd::engine {
namespace {

cpu::NormShape some_rows(const cpu::NormShape& all, std::int64_t begin, std::int64_t end) {
  cpu::NormShape part = all;
  part.rows = end - begin;
  return part;
}

cpu::NormShape some_columns(const cpu::NormShape& all, std::int64_t begin, std::int64_t end) {
  return {all.rows, end - begin, all.epsilon, all.row_stride()};
}

cpu::LogitsShape some_rows(const cpu::LogitsShape& all, std::int64_t begin, std::int64_t end) {
  cpu::LogitsShape part = all;
  part.rows = end - begin;
  return part;
}

template <typename T>
T* row_of(T* data, std::int64_t row, std::int64_t width) {
  return data == nullptr ? nullptr : data + row * width;
}

}  // namespace

template <typename S>
template <typename Work>
void CpuKernels<S>::for_ranges(std::int64_t count, const Work& work) {
  if (workers_ == nullptr) return work(std::int64_t{0}, count);
  workers_->run([&](int worker) {
    const WorkerShare share = worker_share(count, worker, workers_->threads());
    if (share.end > share.begin) work(share.begin, share.end);
  });
}

template <typename S>
template <typename Work>
void CpuKernels<S>::for_heads(const cpu::AttentionLayout& layout, float* scratch,
                              const Work& work) {
  const std::int64_t count = layout.kv_items();
  if (workers_ == nullptr) return work(cpu::KvRange{0, count}, scratch);
  const std::int64_t room = planner::attention_scratch_elements(layout.sequence, layout.head_width);
  workers_->run([&](int worker) {
    const WorkerShare share = worker_share(count, worker, workers_->threads());
    if (share.end > share.begin) {
      work(cpu::KvRange{share.begin, share.end}, scratch + worker * room);
    }
  });
}

template <typename S>
void CpuKernels<S>::layer_norm_forward(S* y, float* mean, float* rstd, const S* x, const S* weight,
                                       const S* bias, const cpu::NormShape& shape) {
  for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.width;
    cpu::layer_norm_forward(y + at, mean + begin, rstd + begin, x + at, weight, bias,
                            some_rows(shape, begin, end));
  });
}

template <typename S>
void CpuKernels<S>::layer_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x,
                                              const S* weight, const float* mean, const float* rstd,
                                              const cpu::NormShape& shape) {
  for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.width;
    cpu::layer_norm_backward_input(dx + at, row_of(residual, begin, shape.width), dy + at, x + at,
                                   weight, mean + begin, rstd + begin,
                                   some_rows(shape, begin, end));
  });
}

template <typename S>
void CpuKernels<S>::layer_norm_backward_weight(float* weight_gradient, float* bias_gradient,
                                               const S* dy, const S* x, const float* mean,
                                               const float* rstd, const cpu::NormShape& shape,
                                               std::int64_t blocks) {
  for_ranges(shape.width, [&](std::int64_t begin, std::int64_t end) {
    cpu::layer_norm_backward_weight(weight_gradient + begin, bias_gradient + begin, dy + begin,
                                    x + begin, mean, rstd, some_columns(shape, begin, end), blocks);
  });
}

template <typename S>
void CpuKernels<S>::rms_norm_forward(S* y, float* rstd, const S* x, const S* weight,
                                     const cpu::NormShape& shape) {
  for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.width;
    cpu::rms_norm_forward(y + at, rstd + begin, x + at, weight, some_rows(shape, begin, end));
  });
}

template <typename S>
void CpuKernels<S>::rms_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x,
                                            const S* weight, const float* rstd,
                                            const cpu::NormShape& shape) {
  for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * shape.width;
    cpu::rms_norm_backward_input(dx + at, row_of(residual, begin, shape.width), dy + at, x + at,
                                 weight, rstd + begin, some_rows(shape, begin, end));
  });
}

template <typename S>
void CpuKernels<S>::rms_norm_backward_weight(float* weight_gradient, const S* dy, const S* x,
                                             const float* rstd, const cpu::NormShape& shape,
                                             std::int64_t blocks) {
  for_ranges(shape.width, [&](std::int64_t begin, std::int64_t end) {
    cpu::rms_norm_backward_weight(weight_gradient + begin, dy + begin, x + begin, rstd,
                                  some_columns(shape, begin, end), blocks);
  });
}

template <typename S>
void CpuKernels<S>::add_column_sums(float* sums, const S* x, std::int64_t rows, std::int64_t width,
                                    std::int64_t stride, std::int64_t blocks) {
  for_ranges(width, [&](std::int64_t begin, std::int64_t end) {
    cpu::add_column_sums(sums + begin, x + begin, rows, end - begin, stride, blocks);
  });
}

template <typename S>
void CpuKernels<S>::gelu(S* y, const S* x, std::int64_t count) {
  for_ranges(count, [&](std::int64_t begin, std::int64_t end) {
    cpu::gelu(y + begin, x + begin, end - begin);
  });
}

template <typename S>
void CpuKernels<S>::gelu_backward(S* dx, const S* dy, const S* x, std::int64_t count) {
  for_ranges(count, [&](std::int64_t begin, std::int64_t end) {
    cpu::gelu_backward(dx + begin, dy + begin, x + begin, end - begin);
  });
}

template <typename S>
void CpuKernels<S>::swiglu(S* y, const S* x, std::int64_t rows, std::int64_t width) {
  for_ranges(rows, [&](std::int64_t begin, std::int64_t end) {
    cpu::swiglu(y + begin * width, x + 2 * begin * width, end - begin, width);
  });
}

template <typename S>
void CpuKernels<S>::swiglu_backward(S* dx, const S* dy, const S* x, std::int64_t rows,
                                    std::int64_t width) {
  for_ranges(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = 2 * begin * width;
    cpu::swiglu_backward(dx + at, dy + begin * width, x + at, end - begin, width);
  });
}

template <typename S>
void CpuKernels<S>::rotary_forward(S* x, const float* cosines, const float* sines,
                                   const cpu::RotaryShape& shape) {
  cpu::rotary_forward(x, cosines, sines, shape);
}

template <typename S>
void CpuKernels<S>::rotary_backward(S* d, const float* cosines, const float* sines,
                                    const cpu::RotaryShape& shape) {
  cpu::rotary_backward(d, cosines, sines, shape);
}

template <typename S>
void CpuKernels<S>::attention_forward(S* out, float* lse, const S* q, const S* k, const S* v,
                                      const cpu::AttentionLayout& layout,
                                      const cpu::AttentionDropout* dropout, float* scratch) {
  for_heads(layout, scratch, [&](const cpu::KvRange& range, float* room) {
    cpu::blocked_attention_forward(out, lse, q, k, v, layout, range, dropout, room);
  });
}

template <typename S>
void CpuKernels<S>::attention_backward(S* dq, S* dk, S* dv, const S* d_out, const S* out,
                                       const float* lse, const S* q, const S* k, const S* v,
                                       const cpu::AttentionLayout& layout,
                                       const cpu::AttentionDropout* dropout, float* scratch) {
  for_heads(layout, scratch, [&](const cpu::KvRange& range, float* room) {
    cpu::blocked_attention_backward(dq, dk, dv, d_out, out, lse, q, k, v, layout, range, dropout,
                                    room);
  });
}

template <typename S>
void CpuKernels<S>::bias_dropout_residual(S* out, const float* product, const S* bias,
                                          const S* residual, std::int64_t rows, std::int64_t width,
                                          const cpu::Dropout* dropout, std::int64_t first_row) {
  for_ranges(rows, [&](std::int64_t begin, std::int64_t end) {
    const std::int64_t at = begin * width;
    cpu::bias_dropout_residual(out + at, product + at, bias, row_of(residual, begin, width),
                               end - begin, width, dropout, first_row + begin);
  });
}

template <typename S>
void CpuKernels<S>::apply_dropout(S* y, const S* x, const cpu::Dropout& dropout, std::int64_t first,
                                  std::int64_t count) {
  for_ranges(count, [&](std::int64_t begin, std::int64_t end) {
    cpu::apply_dropout(y + begin, x + begin, dropout, first + begin, end - begin);
  });
}

template <typename S>
void CpuKernels<S>::token_lookup(S* out, const std::int32_t* tokens, const S* table,
                                 const cpu::VocabularyRange& range, std::int64_t rows,
                                 std::int64_t width) {
  cpu::token_lookup(out, tokens, table, range, rows, width);
}

template <typename S>
void CpuKernels<S>::token_lookup_backward(float* table_gradient, const S* d_out,
                                          const std::int32_t* tokens,
                                          const cpu::VocabularyRange& range, std::int64_t rows,
                                          std::int64_t width) {
  cpu::token_lookup_backward(table_gradient, d_out, tokens, range, rows, width);
}

template <typename S>
void CpuKernels<S>::add_positions(S* x, const S* positions, std::int64_t first_row,
                                  std::int64_t rows, std::int64_t sequence, std::int64_t width) {
  cpu::add_positions(x, positions, first_row, rows, sequence, width);
}

template <typename S>
void CpuKernels<S>::add_positions_backward(float* positions_gradient, const S* d_x,
                                           std::int64_t first_row, std::int64_t rows,
                                           std::int64_t sequence, std::int64_t width,
                                           std::int64_t blocks) {
  cpu::add_positions_backward(positions_gradient, d_x, first_row, rows, sequence, width, blocks);
}

template <typename S>
void CpuKernels<S>::mean_rows(S* out, const S* in, const cpu::PoolingShape& shape) {
  for_ranges(shape.width, [&](std::int64_t begin, std::int64_t end) {
    cpu::mean_rows(out + begin, in + begin,
                   {shape.samples, shape.steps, end - begin, shape.stride});
  });
}

template <typename S>
void CpuKernels<S>::mean_rows_backward(float* d_in, const float* d_out, std::int64_t first_row,
                                       std::int64_t rows, std::int64_t steps, std::int64_t width) {
  for_ranges(rows, [&](std::int64_t begin, std::int64_t end) {
    cpu::mean_rows_backward(d_in + begin * width, d_out, first_row + begin, end - begin, steps,
                            width);
  });
}

template <typename S>
void CpuKernels<S>::cross_entropy_maximum(float* maximum, const float* logits,
                                          const cpu::LogitsShape& shape) {
  for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    cpu::cross_entropy_maximum(maximum + begin, logits + begin * shape.stride,
                               some_rows(shape, begin, end));
  });
}

template <typename S>
void CpuKernels<S>::cross_entropy_sums(float* sum, float* target_logit, const float* logits,
                                       const std::int32_t* targets, const float* maximum,
                                       const cpu::LogitsShape& shape) {
  for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    cpu::cross_entropy_sums(sum + begin, target_logit + begin, logits + begin * shape.stride,
                            targets + begin, maximum + begin, some_rows(shape, begin, end));
  });
}

template <typename S>
void CpuKernels<S>::cross_entropy_statistics(float* maximum, float* sum, float* target_logit,
                                             const float* logits, const std::int32_t* targets,
                                             const cpu::LogitsShape& shape) {
  for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    cpu::cross_entropy_statistics(maximum + begin, sum + begin, target_logit + begin,
                                  logits + begin * shape.stride, targets + begin,
                                  some_rows(shape, begin, end));
  });
}

template <typename S>
void CpuKernels<S>::cross_entropy_losses(double* loss, const float* maximum, const float* sum,
                                         const float* target_logit, const std::int32_t* targets,
                                         std::int64_t rows) {
  cpu::cross_entropy_losses(loss, maximum, sum, target_logit, targets, rows);
}

template <typename S>
void CpuKernels<S>::cross_entropy_backward(float* logits, const std::int32_t* targets,
                                           const float* maximum, const float* sum, float scale,
                                           const cpu::LogitsShape& shape) {
  for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
    cpu::cross_entropy_backward(logits + begin * shape.stride, targets + begin, maximum + begin,
                                sum + begin, scale, some_rows(shape, begin, end));
  });
}

template <typename S>
void CpuKernels<S>::cross_entropy_backward_narrow(float* logits, const std::int32_t* targets,
                                                  const float* maximum, const float* sum,
                                                  float scale, const cpu::LogitsShape& shape) {
  if constexpr (std::is_same_v<S, float>) {
    cross_entropy_backward(logits, targets, maximum, sum, scale, shape);
  } else {
    for_ranges(shape.rows, [&](std::int64_t begin, std::int64_t end) {
      cpu::cross_entropy_backward_narrow<S>(logits + begin * shape.stride, targets + begin,
                                            maximum + begin, sum + begin, scale,
                                            some_rows(shape, begin, end));
    });
  }
}

template <typename S>
void CpuKernels<S>::spread_row(S* out, std::int64_t stride, const S* row, std::int64_t rows,
                               std::int64_t width) {
  for_ranges(rows, [&](std::int64_t begin, std::int64_t end) {
    for (std::int64_t i = begin; i < end; ++i) std::copy_n(row, width, out + i * stride);
  });
}

template <typename S>
void CpuKernels<S>::spread_to_logits(float* logits, const S* row, std::int64_t rows,
                                     std::int64_t width) {
  for (std::int64_t i = 0; i < rows; ++i) {
    for (std::int64_t c = 0; c < width; ++c) logits[i * width + c] = cpu::widen(row[c]);
  }
}

template <typename S>
void CpuKernels<S>::add_logit_sums(float* sums, const float* d_logits, std::int64_t rows,
                                   std::int64_t width) {
  cpu::add_column_sums(sums, d_logits, rows, width, width, 1);
}

template <typename S>
void CpuKernels<S>::narrow(S* to, const float* from, std::int64_t count) {
  for_ranges(count, [&](std::int64_t begin, std::int64_t end) {
    if constexpr (std::is_same_v<S, float>) {
      std::copy(from + begin, from + end, to + begin);
    } else {
      cpu::narrow_all(to + begin, from + begin, end - begin);
    }
  });
}

template class CpuKernels<float>;
template class CpuKernels<BFloat16>;
template class CpuKernels<Float16>;

}  // namespace nqd::engine
