// One layer of a decoder: attention and MLP, each behind a norm and beside a residual.
#pragma once

#include <cstdint>
#include <string>

#include "engine/models/transformer/unit_context.h"

namespace nqd::engine {

template <typename S>
class DecoderLayer {
 public:
  DecoderLayer(const planner::LocalUnit& unit, UnitContext<S>& context);

  // From a.input to `output` [R, h]; all of `a` is written. A null `output` leaves the last product
  // and its message out, which is all that recomputation can spare.
  void forward(const S* weights, const LayerActivations<S>& a, S* output, const Pass& pass);

  // `stream` [R, h]: the gradient of the output, then that of the input. With `attention_again` the
  // attention's output and lse are computed first.
  void backward_input(const S* weights, const LayerActivations<S>& a, const LayerStash<S>& stash,
                      S* stream, bool attention_again, const Pass& pass);
  void backward_weight(const UnitGradients& to, const LayerActivations<S>& a,
                       const LayerStash<S>& stash);

 private:
  struct Affine {
    std::int64_t weight = -1;
    std::int64_t bias = -1;
  };
  static Affine affine(const planner::LocalUnit& unit, const std::string& name);

  // out [rows, width], rows `stride` apart, = in · weightᵀ + bias.
  void column_forward(S* out, std::int64_t stride, const S* in, const S* weights, const Affine& at,
                      std::int64_t width);
  // out [R, h] = residual + dropout(Σ over ranks of in [rows, width] · weightᵀ, + bias).
  void row_forward(S* out, const S* in, std::int64_t width, const S* weights, const Affine& at,
                   const S* residual, const Pass& pass, cpu::DropoutSite site);
  // d_in [rows, width] of a row-parallel product.
  void row_backward_input(S* d_in, const S* d_out, const S* weights, const Affine& at,
                          std::int64_t width);
  void weight_gradient(const UnitGradients& to, const Affine& at, const S* d_out,
                       std::int64_t stride, std::int64_t out_width, const S* in,
                       std::int64_t in_width);
  void column_bias_gradient(float* gradients, const Affine& at, const S* d_out, std::int64_t stride,
                            std::int64_t width);

  void attention_forward(const LayerActivations<S>& a, const Pass& pass);
  void mlp_backward_input(const S* weights, const LayerActivations<S>& a,
                          const LayerStash<S>& stash, S* stream, const Pass& pass);
  void attention_backward_input(const S* weights, const LayerActivations<S>& a,
                                const LayerStash<S>& stash, S* stream, const Pass& pass);
  void attention_core_backward(const LayerActivations<S>& a, const LayerStash<S>& stash,
                               const Pass& pass);
  StackedBlocks fc_blocks(const S* d_fc, const S* weights) const;
  StackedBlocks qkv_blocks(const S* d_qkv, const S* weights) const;
  // Adds a norm's and the bias's gradients to the packed message, and the gradient through the norm
  // to the stream.
  void finish_branch(const S* weights, const Affine& norm, const NormBuffers<S>& kept, const S* in,
                     float* replicated, S* stream);

  UnitContext<S>& c_;
  std::int64_t layer_;
  Affine norm1_, qkv_, kv_, attention_proj_, norm2_, fc_, mlp_proj_;
  ReplicatedTensors replicated_;
};

}  // namespace nqd::engine
