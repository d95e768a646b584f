// The kernels of engine/cuda/kernels on the compute stream of a rank.
#pragma once

#include <cstddef>
#include <cstdint>

#include "engine/cuda/cudnn/fused_attention.h"
#include "engine/cuda/handles.h"
#include "engine/cuda/pool.h"
#include "engine/device/kernels.h"

namespace nqd::engine::cuda {

// Device memory that an operation needs while it runs, as large as the largest so far. Operations
// of one stream may follow one another in it.
class Scratch {
 public:
  // The pool must outlive it.
  explicit Scratch(DevicePool& pool) : pool_(pool) {}

  template <typename T>
  T* of(std::int64_t count) {
    const auto bytes = static_cast<std::size_t>(count) * sizeof(T);
    if (bytes > buffer_.size()) grow(bytes);
    return buffer_.as<T>();
  }
  std::size_t bytes() const { return buffer_.size(); }
  // How often the memory that was given out before has been given up for more.
  std::uint64_t growths() const { return growths_; }

 private:
  void grow(std::size_t bytes);

  DevicePool& pool_;
  DeviceBuffer buffer_;
  std::uint64_t growths_ = 0;
};

template <typename S>
class GpuKernels final : public Kernels<S> {
 public:
  // The scratch must outlive it, and be used on this stream alone.
  GpuKernels(StreamHandle stream, Scratch& scratch) : stream_(stream), scratch_(scratch) {}

  // From here on asked first for attention without dropout; must outlive this object.
  void prefer(FusedAttention* attention) { fused_attention_ = attention; }

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

  // Leave the caller's scratch alone, which is sized for a CPU's blocks.
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
  StreamHandle stream_;
  Scratch& scratch_;
  FusedAttention* fused_attention_ = nullptr;
};

}  // namespace nqd::engine::cuda
