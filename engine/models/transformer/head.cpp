#include "engine/models/transformer/head.h"

namespace nqd::engine {

template <typename S>
FinalNorm<S>::FinalNorm(const planner::LocalUnit& head, UnitContext<S>& context)
    : c_(context),
      weight_(offset_of(head, "final_norm.weight")),
      bias_(offset_of(head, "final_norm.bias")),
      replicated_(head) {}

template <typename S>
void FinalNorm<S>::forward(const S* weights, const HeadBuffers<S>& a) {
  NormBuffers<S> own = a.norm;
  if (c_.group.sequence_parallel()) own.output = reinterpret_cast<S*>(c_.workspace.scattered);
  c_.norm_forward(own, a.input, tensor_at(weights, weight_), tensor_at(weights, bias_));
  c_.gather_rows(own.output, a.norm.output);
}

template <typename S>
void FinalNorm<S>::backward_input(const S* weights, const HeadBuffers<S>& a, float* replicated,
                                  S* stream) {
  c_.device.zero(replicated, replicated_.elements());
  const S* const d_norm = c_.norm_gradient();
  c_.norm_backward_weight(replicated_.at(replicated, weight_), replicated_.at(replicated, bias_),
                          d_norm, a.input, a.norm);
  c_.norm_backward_input(stream, nullptr, d_norm, a.input, tensor_at(weights, weight_), a.norm);
}

template <typename S>
void FinalNorm<S>::backward_weight(float* gradients, float* replicated) {
  if (c_.group.sequence_parallel()) {
    c_.group.sum_replicated({replicated, static_cast<std::size_t>(replicated_.elements())});
  }
  replicated_.add(c_.device, gradients, replicated);
}

template <typename S>
cpu::LogitsShape Logits<S>::logits_shape() const {
  const RankShape& s = c_.shape;
  const std::int64_t width = s.slices.canonical ? s.slices.of(s.vocabulary).width : s.tokens;
  return {s.rows, s.vocabulary_stride, s.tokens, s.first_token, width, s.slices.count};
}

template <typename S>
void Logits<S>::forward(const S* table, const HeadBuffers<S>& a) {
  const RankShape& s = c_.shape;
  const std::int64_t stride = s.vocabulary_stride;
  float* const sums = a.sums;
  float* const target_logits = a.sums + s.rows;
  c_.products.run({s.rows, s.tokens, s.hidden, matrix(a.norm.output, s.hidden),
                   matrix(table, s.hidden, Transpose::kYes), result(a.logits, stride)});
  if (c_.group.size() == 1) {
    c_.kernels.cross_entropy_statistics(a.maximum, sums, target_logits, a.logits, a.targets,
                                        logits_shape());
  } else {
    c_.kernels.cross_entropy_maximum(a.maximum, a.logits, logits_shape());
    c_.group.maximum({a.maximum, static_cast<std::size_t>(s.rows)});
    c_.kernels.cross_entropy_sums(sums, target_logits, a.logits, a.targets, a.maximum,
                                  logits_shape());
    c_.group.template sum<float>({sums, static_cast<std::size_t>(2 * s.rows)});
  }
  c_.kernels.cross_entropy_losses(c_.workspace.row_losses, a.maximum, sums, target_logits,
                                  a.targets, s.rows);
}

template <typename S>
void Logits<S>::backward_input(const S* table, const HeadBuffers<S>& a, const Pass& pass) {
  const RankShape& s = c_.shape;
  if (narrows()) {
    c_.kernels.cross_entropy_backward_narrow(a.logits, a.targets, a.maximum, a.sums,
                                             pass.loss_scale, logits_shape());
  } else {
    c_.kernels.cross_entropy_backward(a.logits, a.targets, a.maximum, a.sums, pass.loss_scale,
                                      logits_shape());
  }
  // Padding stays out of the chains, so that they are the same for every tp.
  c_.products.run_sliced({s.rows, s.hidden, s.tokens, logits_gradient(a, Transpose::kNo),
                          matrix(table, s.hidden), result(c_.workspace.partial, s.hidden)},
                         s.vocabulary);
  c_.reduce_partial();
}

template <typename S>
FixedInput Logits<S>::logits_gradient(const HeadBuffers<S>& a, Transpose op) const {
  const std::int64_t stride = c_.shape.vocabulary_stride;
  if (!narrows()) return matrix(a.logits, stride, op);
  constexpr std::int64_t kOfFloat = sizeof(float) / sizeof(S);
  return matrix(reinterpret_cast<const S*>(a.logits), kOfFloat * stride, op);
}

template <typename S>
void Logits<S>::backward_weight(float* table_gradient, const HeadBuffers<S>& a) {
  const RankShape& s = c_.shape;
  c_.products.run({s.tokens, s.hidden, s.rows, logits_gradient(a, Transpose::kYes),
                   matrix(a.norm.output, s.hidden), result(table_gradient, s.hidden), 1.0F, true});
}

template class FinalNorm<float>;
template class FinalNorm<BFloat16>;
template class FinalNorm<Float16>;
template class Logits<float>;
template class Logits<BFloat16>;
template class Logits<Float16>;

}  // namespace nqd::engine
