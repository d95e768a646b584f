#include "engine/models/transformer/classifier.h"

namespace nqd::engine {
namespace {

cpu::LogitsShape logits_shape(const RankShape& s) {
  return {s.target_rows, s.vocabulary, s.vocabulary, 0, s.vocabulary, 1};
}

}  // namespace

template <typename S>
Classifier<S>::Classifier(const planner::LocalUnit& head, UnitContext<S>& context)
    : c_(context), bias_(offset_of(head, "head.bias") - offset_of(head, "head.weight")) {}

template <typename S>
void Classifier<S>::forward(const S* weights, const HeadBuffers<S>& a) {
  const RankShape& s = c_.shape;
  c_.kernels.mean_rows(a.pooled, a.norm.output, {s.batch, s.sequence, s.hidden, s.hidden});
  c_.kernels.spread_to_logits(a.logits, weights + bias_, s.target_rows, s.vocabulary);
  c_.products.run({s.target_rows, s.vocabulary, s.hidden, matrix(a.pooled, s.hidden),
                   matrix(weights, s.hidden, Transpose::kYes), result(a.logits, s.vocabulary), 1.0F,
                   true});
  float* const target_logits = a.sums + s.target_rows;
  c_.kernels.cross_entropy_maximum(a.maximum, a.logits, logits_shape(s));
  c_.kernels.cross_entropy_sums(a.sums, target_logits, a.logits, a.targets, a.maximum,
                                logits_shape(s));
  c_.kernels.cross_entropy_losses(c_.workspace.row_losses, a.maximum, a.sums, target_logits,
                                  a.targets, s.target_rows);
}

template <typename S>
void Classifier<S>::backward_input(const S* weights, const HeadBuffers<S>& a, const Pass& pass) {
  const RankShape& s = c_.shape;
  c_.kernels.cross_entropy_backward(a.logits, a.targets, a.maximum, a.sums, pass.loss_scale,
                                    logits_shape(s));
  float* const d_pooled = c_.workspace.d_pooled;
  c_.products.run({s.target_rows, s.hidden, s.vocabulary, matrix(a.logits, s.vocabulary),
                   matrix(weights, s.hidden), result(d_pooled, s.hidden)});
  c_.kernels.mean_rows_backward(c_.reduced(), d_pooled, s.first_row, s.residual_rows, s.sequence,
                                s.hidden);
}

template <typename S>
void Classifier<S>::backward_weight(float* gradients, const HeadBuffers<S>& a) {
  const RankShape& s = c_.shape;
  c_.products.run({s.vocabulary, s.hidden, s.target_rows,
                   matrix(a.logits, s.vocabulary, Transpose::kYes), matrix(a.pooled, s.hidden),
                   result(gradients, s.hidden), 1.0F, true});
  c_.kernels.add_logit_sums(gradients + bias_, a.logits, s.target_rows, s.vocabulary);
}

template class Classifier<float>;
template class Classifier<BFloat16>;
template class Classifier<Float16>;

}  // namespace nqd::engine
