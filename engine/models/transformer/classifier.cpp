#include "engine/models/transformer/classifier.h"

#include "engine/cpu/cross_entropy.h"
#include "engine/cpu/norms.h"
#include "engine/cpu/pooling.h"

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
  c_.for_ranges(s.hidden, [&](std::int64_t begin, std::int64_t end) {
    cpu::mean_rows(a.pooled + begin, a.norm.output + begin,
                   {s.batch, s.sequence, end - begin, s.hidden});
  });
  for (std::int64_t row = 0; row < s.target_rows; ++row) {
    float* const logits = a.logits + row * s.vocabulary;
    for (std::int64_t i = 0; i < s.vocabulary; ++i) logits[i] = cpu::widen(weights[bias_ + i]);
  }
  c_.products.run({s.target_rows, s.vocabulary, s.hidden, matrix(a.pooled, s.hidden),
                   matrix(weights, s.hidden, Transpose::kYes), result(a.logits, s.vocabulary), 1.0F,
                   true});
  float* const target_logits = a.sums + s.target_rows;
  cpu::cross_entropy_maximum(a.maximum, a.logits, logits_shape(s));
  cpu::cross_entropy_sums(a.sums, target_logits, a.logits, a.targets, a.maximum, logits_shape(s));
  cpu::cross_entropy_losses(c_.workspace.row_losses, a.maximum, a.sums, target_logits, a.targets,
                            s.target_rows);
}

template <typename S>
void Classifier<S>::backward_input(const S* weights, const HeadBuffers<S>& a, const Pass& pass) {
  const RankShape& s = c_.shape;
  cpu::cross_entropy_backward(a.logits, a.targets, a.maximum, a.sums, pass.loss_scale,
                              logits_shape(s));
  float* const d_pooled = c_.workspace.d_pooled;
  c_.products.run({s.target_rows, s.hidden, s.vocabulary, matrix(a.logits, s.vocabulary),
                   matrix(weights, s.hidden), result(d_pooled, s.hidden)});
  float* const d_norm = c_.reduced();
  c_.for_ranges(s.residual_rows, [&](std::int64_t begin, std::int64_t end) {
    cpu::mean_rows_backward(d_norm + begin * s.hidden, d_pooled, s.first_row + begin, end - begin,
                            s.sequence, s.hidden);
  });
}

template <typename S>
void Classifier<S>::backward_weight(float* gradients, const HeadBuffers<S>& a) {
  const RankShape& s = c_.shape;
  c_.products.run({s.vocabulary, s.hidden, s.target_rows,
                   matrix(a.logits, s.vocabulary, Transpose::kYes), matrix(a.pooled, s.hidden),
                   result(gradients, s.hidden), 1.0F, true});
  cpu::add_column_sums(gradients + bias_, a.logits, s.target_rows, s.vocabulary, s.vocabulary, 1);
}

template class Classifier<float>;
template class Classifier<BFloat16>;
template class Classifier<Float16>;

}  // namespace nqd::engine
