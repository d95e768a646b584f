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
  // a.activated from the second norm's output.
  void fc_forward(const LayerActivations<S>& a, const S* in, const S* weights);
  // out [R, h] = residual + dropout(Σ over ranks of in [rows, width] · weightᵀ, + bias).
  void row_forward(S* out, const S* in, std::int64_t width, const S* weights, const Affine& at,
                   const S* residual, const Pass& pass, cpu::DropoutSite site);
  // d_in [rows, width] of a row-parallel product.
  FixedProduct row_input_gradient(S* d_in, const S* d_out, const S* weights, const Affine& at,
                                  std::int64_t width) const;
  // The bias gradient of a row-parallel product is summed over this rank's rows of the stream: with
  // the other gradients of the stream, or, where a device fuses and they are all rows, with the
  // weight's.
  bool sums_bias_with_weight() const;
  void row_bias_gradient(const Affine& at, const S* d_out, float* replicated);
  // `bias`, null for none, is added the sums of d_out over its rows, in `blocks` blocks.
  void weight_gradient(const UnitGradients& to, const Affine& at, const S* d_out,
                       std::int64_t stride, std::int64_t out_width, const S* in,
                       std::int64_t in_width, float* bias, std::int64_t blocks);
  void column_weight_gradient(const UnitGradients& to, const Affine& at, const S* d_out,
                              std::int64_t stride, std::int64_t out_width, const S* in);
  void row_weight_gradient(const UnitGradients& to, const Affine& at, const S* d_out, const S* in,
                           std::int64_t in_width, float* replicated);

  void attention_forward(const LayerActivations<S>& a, const Pass& pass);
  void mlp_backward_input(const S* weights, const LayerActivations<S>& a,
                          const LayerStash<S>& stash, S* stream, const Pass& pass);
  void attention_backward_input(const S* weights, const LayerActivations<S>& a,
                                const LayerStash<S>& stash, S* stream, const Pass& pass);
  void attention_core_backward(const LayerActivations<S>& a, const LayerStash<S>& stash,
                               const Pass& pass);
  StackedBlocks fc_blocks(const S* d_fc, const S* weights) const;
  StackedBlocks qkv_blocks(const S* d_qkv, const S* weights) const;
  // From the blocks whose products are the gradient of the norm's output: adds the norm's gradients
  // to the packed message, and the gradient through the norm to the stream.
  void finish_branch(const StackedBlocks& blocks, const S* weights, const Affine& norm,
                     const NormBuffers<S>& kept, const S* in, float* replicated, S* stream);

  UnitContext<S>& c_;
  std::int64_t layer_;
  Affine norm1_, qkv_, kv_, attention_proj_, norm2_, fc_, mlp_proj_;
  ReplicatedTensors replicated_;
};

}  // namespace nqd::engine
