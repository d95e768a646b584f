#include "engine/models/transformer/decoder_layer.h"

#include <type_traits>

namespace nqd::engine {

using cpu::DropoutSite;
using Fused = ProductEpilogue::Kind;

template <typename S>
typename DecoderLayer<S>::Affine DecoderLayer<S>::affine(const planner::LocalUnit& unit,
                                                         const std::string& name) {
  return {offset_of(unit, name + ".weight"), offset_of(unit, name + ".bias")};
}

template <typename S>
DecoderLayer<S>::DecoderLayer(const planner::LocalUnit& unit, UnitContext<S>& context)
    : c_(context),
      layer_(unit.layer),
      norm1_(affine(unit, "norm1")),
      qkv_(affine(unit, context.shape.split_qkv ? "attention.q" : "attention.qkv")),
      kv_(affine(unit, "attention.kv")),
      attention_proj_(affine(unit, "attention.proj")),
      norm2_(affine(unit, "norm2")),
      fc_(affine(unit, "mlp.fc")),
      mlp_proj_(affine(unit, "mlp.proj")),
      replicated_(unit) {}

template <typename S>
void DecoderLayer<S>::forward(const S* weights, const LayerActivations<S>& a, S* output,
                              const Pass& pass) {
  const RankShape& s = c_.shape;
  c_.norm_forward(a.norm1, a.input, tensor_at(weights, norm1_.weight),
                  tensor_at(weights, norm1_.bias));
  const S* const in1 = c_.gather_rows(a.norm1.output, c_.workspace.gathered);
  if (s.split_qkv) {
    column_forward(a.qkv, s.qkv(), in1, weights, qkv_, s.queries);
    column_forward(a.qkv + s.queries, s.qkv(), in1, weights, kv_, 2 * s.keys);
  } else {
    column_forward(a.qkv, s.qkv(), in1, weights, qkv_, s.qkv());
  }
  if (s.rotary) {
    const std::int64_t table = s.sequence * s.head_width / 2;
    c_.kernels.rotary_forward(a.qkv, c_.workspace.rotary, c_.workspace.rotary + table,
                              {s.rows, s.sequence, s.heads + s.kv_heads, s.head_width, s.qkv()});
  }
  attention_forward(a, pass);
  row_forward(a.attention_residual, a.attention, s.queries, weights, attention_proj_, a.input, pass,
              DropoutSite::kAttentionOutput);

  c_.norm_forward(a.norm2, a.attention_residual, tensor_at(weights, norm2_.weight),
                  tensor_at(weights, norm2_.bias));
  const S* const in2 = c_.gather_rows(a.norm2.output, c_.workspace.gathered);
  fc_forward(a, in2, weights);
  if (output == nullptr) return;
  row_forward(output, a.activated, s.ffn, weights, mlp_proj_, a.attention_residual, pass,
              DropoutSite::kMlpOutput);
}

template <typename S>
void DecoderLayer<S>::column_forward(S* out, std::int64_t stride, const S* in, const S* weights,
                                     const Affine& at, std::int64_t width) {
  const RankShape& s = c_.shape;
  FixedProduct product{s.rows,
                       width,
                       s.hidden,
                       matrix(in, s.hidden),
                       matrix(weights + at.weight, s.hidden, Transpose::kYes),
                       result(out, stride)};
  if (const S* const bias = tensor_at(weights, at.bias)) {
    if (c_.products.run_fused(product, {.kind = Fused::kBias, .bias = bias})) return;
    c_.kernels.spread_row(out, stride, bias, s.rows, width);
    product.accumulate = true;
  }
  c_.products.run(product);
}

template <typename S>
void DecoderLayer<S>::fc_forward(const LayerActivations<S>& a, const S* in, const S* weights) {
  const RankShape& s = c_.shape;
  const std::int64_t width = s.gates * s.ffn;
  if (s.gates == 2) {
    column_forward(a.fc, width, in, weights, fc_, width);
    return c_.kernels.swiglu(a.activated, a.fc, s.rows, s.ffn);
  }
  const bool fused = c_.products.run_fused(
      {s.rows, width, s.hidden, matrix(in, s.hidden),
       matrix(weights + fc_.weight, s.hidden, Transpose::kYes), result(a.activated, width)},
      {.kind = Fused::kGelu, .bias = tensor_at(weights, fc_.bias), .before_gelu = a.fc});
  if (fused) return;
  column_forward(a.fc, width, in, weights, fc_, width);
  c_.kernels.gelu(a.activated, a.fc, s.rows * s.ffn);
}

template <typename S>
void DecoderLayer<S>::row_forward(S* out, const S* in, std::int64_t width, const S* weights,
                                  const Affine& at, const S* residual, const Pass& pass,
                                  DropoutSite site) {
  const RankShape& s = c_.shape;
  const S* const bias = tensor_at(weights, at.bias);
  const std::optional<cpu::Dropout> masks = c_.dropout(pass, layer_, site);
  FixedProduct product{s.rows,
                       s.hidden,
                       width,
                       matrix(in, width),
                       matrix(weights + at.weight, width, Transpose::kYes),
                       result(out, s.hidden)};
  if (!s.slices.canonical && c_.group.size() == 1 && !masks) {
    const ProductEpilogue rest{.kind = Fused::kResidual, .bias = bias, .residual = residual};
    if (c_.products.run_fused(product, rest)) return;
    if constexpr (std::is_same_v<S, float>) {
      // Saves a pass: the product is added to the residual where it is to be.
      c_.kernels.bias_dropout_residual(out, residual, bias, nullptr, s.rows, s.hidden, nullptr, 0);
      product.accumulate = true;
      return c_.products.run(product);
    }
  }
  product.c = result(c_.workspace.partial, s.hidden);
  c_.products.run_sliced(product, width * c_.group.size());
  const float* const reduced = c_.reduce_partial();
  c_.kernels.bias_dropout_residual(out, reduced, bias, residual, s.residual_rows, s.hidden,
                                   masks ? &*masks : nullptr, c_.first_row_of_step(pass));
}

template <typename S>
void DecoderLayer<S>::attention_forward(const LayerActivations<S>& a, const Pass& pass) {
  const RankShape& s = c_.shape;
  const cpu::AttentionLayout layout =
      cpu::packed_attention(s.batch, s.sequence, s.heads, s.kv_heads, s.head_width, s.causal);
  const std::optional<cpu::Dropout> masks = c_.dropout(pass, layer_, DropoutSite::kAttention);
  const cpu::AttentionDropout dropout{masks.value_or(cpu::Dropout{}), pass.first_sequence,
                                      c_.group.rank() * s.heads, s.model_heads};
  c_.kernels.attention_forward(a.attention, a.lse, a.qkv, a.qkv + s.queries,
                               a.qkv + s.queries + s.keys, layout, masks ? &dropout : nullptr,
                               c_.workspace.attention);
}

template <typename S>
void DecoderLayer<S>::backward_input(const S* weights, const LayerActivations<S>& a,
                                     const LayerStash<S>& stash, S* stream, bool attention_again,
                                     const Pass& pass) {
  c_.device.zero(stash.replicated, replicated_.elements());
  mlp_backward_input(weights, a, stash, stream, pass);
  if (attention_again) attention_forward(a, pass);
  attention_backward_input(weights, a, stash, stream, pass);
}

template <typename S>
void DecoderLayer<S>::mlp_backward_input(const S* weights, const LayerActivations<S>& a,
                                         const LayerStash<S>& stash, S* stream, const Pass& pass) {
  const RankShape& s = c_.shape;
  const S* const part =
      c_.branch_gradient(stash.d_mlp, stream, pass, layer_, DropoutSite::kMlpOutput);
  if (!sums_bias_with_weight()) row_bias_gradient(mlp_proj_, part, stash.replicated);
  S* const d_activated = s.gates == 1 ? stash.d_fc : c_.workspace.d_inner;
  const FixedProduct product =
      row_input_gradient(d_activated, stash.d_mlp, weights, mlp_proj_, s.ffn);
  if (s.gates == 2) {
    c_.products.run(product);
    c_.kernels.swiglu_backward(stash.d_fc, d_activated, a.fc, s.rows, s.ffn);
  } else if (!c_.products.run_fused(product, {.kind = Fused::kGeluBackward, .before_gelu = a.fc})) {
    c_.products.run(product);
    c_.kernels.gelu_backward(stash.d_fc, stash.d_fc, a.fc, s.rows * s.ffn);
  }
  finish_branch(fc_blocks(stash.d_fc, weights), weights, norm2_, a.norm2, a.attention_residual,
                stash.replicated, stream);
}

template <typename S>
void DecoderLayer<S>::attention_backward_input(const S* weights, const LayerActivations<S>& a,
                                               const LayerStash<S>& stash, S* stream,
                                               const Pass& pass) {
  const RankShape& s = c_.shape;
  const S* const part =
      c_.branch_gradient(stash.d_attention, stream, pass, layer_, DropoutSite::kAttentionOutput);
  if (!sums_bias_with_weight()) row_bias_gradient(attention_proj_, part, stash.replicated);
  c_.products.run(row_input_gradient(c_.workspace.d_inner, stash.d_attention, weights,
                                     attention_proj_, s.queries));
  attention_core_backward(a, stash, pass);
  finish_branch(qkv_blocks(stash.d_qkv, weights), weights, norm1_, a.norm1, a.input,
                stash.replicated, stream);
}

template <typename S>
void DecoderLayer<S>::attention_core_backward(const LayerActivations<S>& a,
                                              const LayerStash<S>& stash, const Pass& pass) {
  const RankShape& s = c_.shape;
  const cpu::AttentionLayout layout =
      cpu::packed_attention(s.batch, s.sequence, s.heads, s.kv_heads, s.head_width, s.causal);
  const std::optional<cpu::Dropout> masks = c_.dropout(pass, layer_, DropoutSite::kAttention);
  const cpu::AttentionDropout dropout{masks.value_or(cpu::Dropout{}), pass.first_sequence,
                                      c_.group.rank() * s.heads, s.model_heads};
  const std::int64_t k = s.queries;
  const std::int64_t v = s.queries + s.keys;
  c_.kernels.attention_backward(stash.d_qkv, stash.d_qkv + k, stash.d_qkv + v, c_.workspace.d_inner,
                                a.attention, a.lse, a.qkv, a.qkv + k, a.qkv + v, layout,
                                masks ? &dropout : nullptr, c_.workspace.attention);
  if (!s.rotary) return;
  const std::int64_t table = s.sequence * s.head_width / 2;
  c_.kernels.rotary_backward(stash.d_qkv, c_.workspace.rotary, c_.workspace.rotary + table,
                             {s.rows, s.sequence, s.heads + s.kv_heads, s.head_width, s.qkv()});
}

template <typename S>
FixedProduct DecoderLayer<S>::row_input_gradient(S* d_in, const S* d_out, const S* weights,
                                                 const Affine& at, std::int64_t width) const {
  const RankShape& s = c_.shape;
  return {s.rows,
          width,
          s.hidden,
          matrix(d_out, s.hidden),
          matrix(weights + at.weight, width),
          result(d_in, width)};
}

template <typename S>
bool DecoderLayer<S>::sums_bias_with_weight() const {
  return c_.products.fuses() && !c_.group.sequence_parallel();
}

template <typename S>
void DecoderLayer<S>::row_bias_gradient(const Affine& at, const S* d_out, float* replicated) {
  const RankShape& s = c_.shape;
  if (at.bias < 0) return;
  c_.kernels.add_column_sums(replicated_.at(replicated, at.bias), d_out, s.residual_rows, s.hidden,
                             s.hidden, s.blocks);
}

template <typename S>
StackedBlocks DecoderLayer<S>::fc_blocks(const S* d_fc, const S* weights) const {
  const RankShape& s = c_.shape;
  const std::int64_t stride = s.gates * s.ffn;
  const std::int64_t width = s.slices.canonical ? s.ffn : stride;
  StackedBlocks blocks;
  for (std::int64_t begin = 0; begin < stride; begin += width) {
    blocks.add({matrix(d_fc + begin, stride),
                matrix(weights + fc_.weight + begin * s.hidden, s.hidden), width});
  }
  return blocks;
}

template <typename S>
StackedBlocks DecoderLayer<S>::qkv_blocks(const S* d_qkv, const S* weights) const {
  const RankShape& s = c_.shape;
  StackedBlocks blocks;
  const auto add = [&](std::int64_t column, std::int64_t weight, std::int64_t width) {
    blocks.add({matrix(d_qkv + column, s.qkv()), matrix(weights + weight, s.hidden), width});
  };
  if (!s.slices.canonical && !s.split_qkv) {
    add(0, qkv_.weight, s.qkv());
    return blocks;
  }
  const std::int64_t keys = s.split_qkv ? kv_.weight : qkv_.weight + s.queries * s.hidden;
  add(0, qkv_.weight, s.queries);
  add(s.queries, keys, s.keys);
  add(s.queries + s.keys, keys + s.keys * s.hidden, s.keys);
  return blocks;
}

template <typename S>
void DecoderLayer<S>::finish_branch(const StackedBlocks& blocks, const S* weights,
                                    const Affine& norm, const NormBuffers<S>& kept, const S* in,
                                    float* replicated, S* stream) {
  const S* const d_norm = c_.norm_gradient_of(blocks);
  c_.norm_backward_weight(replicated_.at(replicated, norm.weight),
                          replicated_.at(replicated, norm.bias), d_norm, in, kept);
  c_.norm_backward_input(stream, stream, d_norm, in, tensor_at(weights, norm.weight), kept);
}

template <typename S>
void DecoderLayer<S>::backward_weight(const UnitGradients& to, const LayerActivations<S>& a,
                                      const LayerStash<S>& stash) {
  const RankShape& s = c_.shape;
  row_weight_gradient(to, mlp_proj_, stash.d_mlp, a.activated, s.ffn, stash.replicated);
  const S* const in2 = c_.gather_rows(a.norm2.output, c_.workspace.gathered);
  const std::int64_t fc_width = s.gates * s.ffn;
  column_weight_gradient(to, fc_, stash.d_fc, fc_width, fc_width, in2);

  row_weight_gradient(to, attention_proj_, stash.d_attention, a.attention, s.queries,
                      stash.replicated);
  const S* const in1 = c_.gather_rows(a.norm1.output, c_.workspace.gathered);
  column_weight_gradient(to, qkv_, stash.d_qkv, s.qkv(), s.split_qkv ? s.queries : s.qkv(), in1);
  if (s.split_qkv) {
    column_weight_gradient(to, kv_, stash.d_qkv + s.queries, s.qkv(), 2 * s.keys, in1);
  }

  if (c_.group.sequence_parallel()) {
    c_.group.sum_replicated({stash.replicated, static_cast<std::size_t>(replicated_.elements())});
  }
  replicated_.add(c_.device, to.own, stash.replicated);
}

template <typename S>
void DecoderLayer<S>::column_weight_gradient(const UnitGradients& to, const Affine& at,
                                             const S* d_out, std::int64_t stride,
                                             std::int64_t out_width, const S* in) {
  weight_gradient(to, at, d_out, stride, out_width, in, c_.shape.hidden, tensor_at(to.own, at.bias),
                  1);
}

template <typename S>
void DecoderLayer<S>::row_weight_gradient(const UnitGradients& to, const Affine& at, const S* d_out,
                                          const S* in, std::int64_t in_width, float* replicated) {
  const RankShape& s = c_.shape;
  const bool with_bias = at.bias >= 0 && sums_bias_with_weight();
  weight_gradient(to, at, d_out, s.hidden, s.hidden, in, in_width,
                  with_bias ? replicated_.at(replicated, at.bias) : nullptr, s.blocks);
}

template <typename S>
void DecoderLayer<S>::weight_gradient(const UnitGradients& to, const Affine& at, const S* d_out,
                                      std::int64_t stride, std::int64_t out_width, const S* in,
                                      std::int64_t in_width, float* bias, std::int64_t blocks) {
  const std::int64_t rows = c_.shape.rows;
  const FixedProduct product{out_width,
                             in_width,
                             rows,
                             matrix(d_out, stride, Transpose::kYes),
                             matrix(in, in_width),
                             result(to.own + at.weight, in_width),
                             1.0F,
                             !to.fresh};
  const bool fused = bias != nullptr &&
                     c_.products.run_fused(product, {.kind = Fused::kRowSums, .row_sums = bias});
  if (fused) return;
  c_.products.run(product);
  if (bias != nullptr) c_.kernels.add_column_sums(bias, d_out, rows, out_width, stride, blocks);
}

template class DecoderLayer<float>;
template class DecoderLayer<BFloat16>;
template class DecoderLayer<Float16>;

}  // namespace nqd::engine
