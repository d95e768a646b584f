// What a model's layers do between its matrix products, one virtual call for a whole operation.
//
// Functions that have the name of one in engine/cpu/ do what its header says, of all rows (columns,
// heads) at once: it is the definition, and on a CPU the implementation. A pointer to S is to
// elements of the storage type, which are computed with as float32 and rounded once. Sums are in a
// fixed order: equal operands give equal bits. Order and memory: engine/device/device.h.
#pragma once

#include <cstdint>

#include "base/dtype.h"
#include "engine/cpu/blocked_attention.h"
#include "engine/cpu/cross_entropy.h"
#include "engine/cpu/dropout.h"
#include "engine/cpu/lookup.h"
#include "engine/cpu/norms.h"
#include "engine/cpu/pooling.h"
#include "engine/cpu/rotary.h"

namespace nqd::engine {

template <typename S>
class Kernels {
 public:
  virtual ~Kernels() = default;

  // engine/cpu/norms.h. x, y and their gradients [rows, width].
  virtual void layer_norm_forward(S* y, float* mean, float* rstd, const S* x, const S* weight,
                                  const S* bias, const cpu::NormShape& shape) = 0;
  virtual void layer_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x,
                                         const S* weight, const float* mean, const float* rstd,
                                         const cpu::NormShape& shape) = 0;
  virtual void layer_norm_backward_weight(float* weight_gradient, float* bias_gradient, const S* dy,
                                          const S* x, const float* mean, const float* rstd,
                                          const cpu::NormShape& shape, std::int64_t blocks) = 0;
  virtual void rms_norm_forward(S* y, float* rstd, const S* x, const S* weight,
                                const cpu::NormShape& shape) = 0;
  virtual void rms_norm_backward_input(S* dx, const S* residual, const S* dy, const S* x,
                                       const S* weight, const float* rstd,
                                       const cpu::NormShape& shape) = 0;
  virtual void rms_norm_backward_weight(float* weight_gradient, const S* dy, const S* x,
                                        const float* rstd, const cpu::NormShape& shape,
                                        std::int64_t blocks) = 0;
  virtual void add_column_sums(float* sums, const S* x, std::int64_t rows, std::int64_t width,
                               std::int64_t stride, std::int64_t blocks) = 0;

  // engine/cpu/activations.h.
  virtual void gelu(S* y, const S* x, std::int64_t count) = 0;
  virtual void gelu_backward(S* dx, const S* dy, const S* x, std::int64_t count) = 0;
  virtual void swiglu(S* y, const S* x, std::int64_t rows, std::int64_t width) = 0;
  virtual void swiglu_backward(S* dx, const S* dy, const S* x, std::int64_t rows,
                               std::int64_t width) = 0;

  // engine/cpu/rotary.h. Tables [sequence, head_width / 2].
  virtual void rotary_forward(S* x, const float* cosines, const float* sines,
                              const cpu::RotaryShape& shape) = 0;
  virtual void rotary_backward(S* d, const float* cosines, const float* sines,
                               const cpu::RotaryShape& shape) = 0;

  // engine/cpu/blocked_attention.h, all key heads of the layout. `scratch`:
  // planner::attention_scratch_elements for each thread of the rank. Here and below `dropout` is in
  // host memory, which may change as soon as the call returns; null for none.
  virtual void attention_forward(S* out, float* lse, const S* q, const S* k, const S* v,
                                 const cpu::AttentionLayout& layout,
                                 const cpu::AttentionDropout* dropout, float* scratch) = 0;
  virtual void attention_backward(S* dq, S* dk, S* dv, const S* d_out, const S* out,
                                  const float* lse, const S* q, const S* k, const S* v,
                                  const cpu::AttentionLayout& layout,
                                  const cpu::AttentionDropout* dropout, float* scratch) = 0;

  // engine/cpu/epilogue.h and dropout.h.
  virtual void bias_dropout_residual(S* out, const float* product, const S* bias, const S* residual,
                                     std::int64_t rows, std::int64_t width,
                                     const cpu::Dropout* dropout, std::int64_t first_row) = 0;
  virtual void apply_dropout(S* y, const S* x, const cpu::Dropout& dropout, std::int64_t first,
                             std::int64_t count) = 0;

  // engine/cpu/lookup.h.
  virtual void token_lookup(S* out, const std::int32_t* tokens, const S* table,
                            const cpu::VocabularyRange& range, std::int64_t rows,
                            std::int64_t width) = 0;
  virtual void token_lookup_backward(float* table_gradient, const S* d_out,
                                     const std::int32_t* tokens, const cpu::VocabularyRange& range,
                                     std::int64_t rows, std::int64_t width) = 0;
  virtual void add_positions(S* x, const S* positions, std::int64_t first_row, std::int64_t rows,
                             std::int64_t sequence, std::int64_t width) = 0;
  virtual void add_positions_backward(float* positions_gradient, const S* d_x,
                                      std::int64_t first_row, std::int64_t rows,
                                      std::int64_t sequence, std::int64_t width,
                                      std::int64_t blocks) = 0;

  // engine/cpu/pooling.h.
  virtual void mean_rows(S* out, const S* in, const cpu::PoolingShape& shape) = 0;
  virtual void mean_rows_backward(float* d_in, const float* d_out, std::int64_t first_row,
                                  std::int64_t rows, std::int64_t steps, std::int64_t width) = 0;

  // engine/cpu/cross_entropy.h. Logits are float32 in every storage type.
  virtual void cross_entropy_maximum(float* maximum, const float* logits,
                                     const cpu::LogitsShape& shape) = 0;
  virtual void cross_entropy_sums(float* sum, float* target_logit, const float* logits,
                                  const std::int32_t* targets, const float* maximum,
                                  const cpu::LogitsShape& shape) = 0;
  virtual void cross_entropy_statistics(float* maximum, float* sum, float* target_logit,
                                        const float* logits, const std::int32_t* targets,
                                        const cpu::LogitsShape& shape) = 0;
  virtual void cross_entropy_losses(double* loss, const float* maximum, const float* sum,
                                    const float* target_logit, const std::int32_t* targets,
                                    std::int64_t rows) = 0;
  virtual void cross_entropy_backward(float* logits, const std::int32_t* targets,
                                      const float* maximum, const float* sum, float scale,
                                      const cpu::LogitsShape& shape) = 0;
  // S of 16 bits alone; with float32 the same as cross_entropy_backward.
  virtual void cross_entropy_backward_narrow(float* logits, const std::int32_t* targets,
                                             const float* maximum, const float* sum, float scale,
                                             const cpu::LogitsShape& shape) = 0;

  // Every row of out [rows, width], `stride` elements apart, becomes `row` [width].
  virtual void spread_row(S* out, std::int64_t stride, const S* row, std::int64_t rows,
                          std::int64_t width) = 0;
  // The same of logits [rows, width], widened.
  virtual void spread_to_logits(float* logits, const S* row, std::int64_t rows,
                                std::int64_t width) = 0;
  // Adds the sums over rows of d_logits [rows, width], one ascending chain each.
  virtual void add_logit_sums(float* sums, const float* d_logits, std::int64_t rows,
                              std::int64_t width) = 0;
  // to[i] = from[i], rounded to nearest even.
  virtual void narrow(S* to, const float* from, std::int64_t count) = 0;
};

}  // namespace nqd::engine
