// The kernels of engine/cpu on the threads of a rank.
#pragma once

#include <cstdint>

#include "engine/device/kernels.h"
#include "engine/threads/worker_pool.h"

namespace nqd::engine {

// Rows (of weight gradients columns, of attention key heads) are divided among the workers, which
// changes no bit. Lookups and rotations are the caller's alone.
template <typename S>
class CpuKernels final : public Kernels<S> {
 public:
  // Null: the calling thread alone.
  explicit CpuKernels(WorkerPool* workers) : workers_(workers) {}

  void layer_norm_forward(S* y, float* mean, float* rstd, const S* x, const S* weight,
                          const S* bias, const cpu::NormShape& shape) override;
  void layer_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x, const S* weight,
                                 const float* mean, const float* rstd,
                                 const cpu::NormShape& shape) override;
  void layer_norm_backward_weight(float* weight_gradient, float* bias_gradient, const S* dy,
                                  const S* x, const float* mean, const float* rstd,
                                  const cpu::NormShape& shape, std::int64_t blocks) override;
  void rms_norm_forward(S* y, float* rstd, const S* x, const S* weight,
                        const cpu::NormShape& shape) override;
  void rms_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x, const S* weight,
                               const float* rstd, const cpu::NormShape& shape) override;
  void rms_norm_backward_weight(float* weight_gradient, const S* dy, const S* x, const float* rstd,
                                const cpu::NormShape& shape, std::int64_t blocks) override;
  void add_column_sums(float* sums, const S* x, std::int64_t rows, std::int64_t width,
                       std::int64_t stride, std::int64_t blocks) override;

  void gelu(S* y, const S* x, std::int64_t count) override;
  void gelu_backward(S* dx, const S* dy, const S* x, std::int64_t count) override;
  void swiglu(S* y, const S* x, std::int64_t rows, std::int64_t width) override;
  void swiglu_backward(S* dx, const S* dy, const S* x, std::int64_t rows,
                       std::int64_t width) override;

  void rotary_forward(S* x, const float* cosines, const float* sines,
                      const cpu::RotaryShape& shape) override;
  void rotary_backward(S* d, const float* cosines, const float* sines,
                       const cpu::RotaryShape& shape) override;

  void attention_forward(S* out, float* lse, const S* q, const S* k, const S* v,
                         const cpu::AttentionLayout& layout, const cpu::AttentionDropout* dropout,
                         float* scratch) override;
  void attention_backward(S* dq, S* dk, S* dv, const S* d_out, const S* out, const float* lse,
                          const S* q, const S* k, const S* v, const cpu::AttentionLayout& layout,
                          const cpu::AttentionDropout* dropout, float* scratch) override;

  void bias_dropout_residual(S* out, const float* product, const S* bias, const S* residual,
                             std::int64_t rows, std::int64_t width, const cpu::Dropout* dropout,
                             std::int64_t first_row) override;
  void apply_dropout(S* y, const S* x, const cpu::Dropout& dropout, std::int64_t first,
                     std::int64_t count) override;

  void token_lookup(S* out, const std::int32_t* tokens, const S* table,
                    const cpu::VocabularyRange& range, std::int64_t rows,
                    std::int64_t width) override;
  void token_lookup_backward(float* table_gradient, const S* d_out, const std::int32_t* tokens,
                             const cpu::VocabularyRange& range, std::int64_t rows,
                             std::int64_t width) override;
  void add_positions(S* x, const S* positions, std::int64_t first_row, std::int64_t rows,
                     std::int64_t sequence, std::int64_t width) override;
  void add_positions_backward(float* positions_gradient, const S* d_x, std::int64_t first_row,
                              std::int64_t rows, std::int64_t sequence, std::int64_t width,
                              std::int64_t blocks) override;

  void mean_rows(S* out, const S* in, const cpu::PoolingShape& shape) override;
  void mean_rows_backward(float* d_in, const float* d_out, std::int64_t first_row,
                          std::int64_t rows, std::int64_t steps, std::int64_t width) override;

  void cross_entropy_maximum(float* maximum, const float* logits,
                             const cpu::LogitsShape& shape) override;
  void cross_entropy_sums(float* sum, float* target_logit, const float* logits,
                          const std::int32_t* targets, const float* maximum,
                          const cpu::LogitsShape& shape) override;
  void cross_entropy_statistics(float* maximum, float* sum, float* target_logit,
                                const float* logits, const std::int32_t* targets,
                                const cpu::LogitsShape& shape) override;
  void cross_entropy_losses(double* loss, const float* maximum, const float* sum,
                            const float* target_logit, const std::int32_t* targets,
                            std::int64_t rows) override;
  void cross_entropy_backward(float* logits, const std::int32_t* targets, const float* maximum,
                              const float* sum, float scale,
                              const cpu::LogitsShape& shape) override;
  void cross_entropy_backward_narrow(float* logits, const std::int32_t* targets,
                                     const float* maximum, const float* sum, float scale,
                                     const cpu::LogitsShape& shape) override;

  void spread_row(S* out, std::int64_t stride, const S* row, std::int64_t rows,
                  std::int64_t width) override;
  void spread_to_logits(float* logits, const S* row, std::int64_t rows,
                        std::int64_t width) override;
  void add_logit_sums(float* sums, const float* d_logits, std::int64_t rows,
                      std::int64_t width) override;
  void narrow(S* to, const float* from, std::int64_t count) override;

 private:
  // Calls work(begin, end) for ranges that cover [0, count), on all workers.
  template <typename Work>
  void for_ranges(std::int64_t count, const Work& work);
  // The same for attention: work(range, scratch), each worker with scratch of its own.
  template <typename Work>
  void for_heads(const cpu::AttentionLayout& layout, float* scratch, const Work& work);

  WorkerPool* workers_;
};

}  // namespace nqd::engine
