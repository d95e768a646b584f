#include "engine/models/transformer/input_projection.h"

namespace nqd::engine {

template <typename S>
InputProjection<S>::InputProjection(const planner::LocalUnit& unit, UnitContext<S>& context,
                                    bool drops_out)
    : c_(context),
      weight_(offset_of(unit, "embedding.input.weight")),
      bias_(offset_of(unit, "embedding.input.bias")),
      drops_out_(drops_out) {}

template <typename S>
void InputProjection<S>::forward(S* out, const S* weights, const float* features,
                                 const Pass& pass) {
  const RankShape& s = c_.shape;
  c_.kernels.spread_row(out, s.hidden, weights + bias_, s.residual_rows, s.hidden);
  c_.products.run({s.residual_rows, s.hidden, s.features,
                   matrix(features + s.first_row * s.features, s.features),
                   matrix(weights + weight_, s.features, Transpose::kYes), result(out, s.hidden),
                   1.0F, true});
  if (drops_out_) c_.drop_out_embedding(out, pass);
}

template <typename S>
void InputProjection<S>::backward_input(S* stream, const Pass& pass) {
  if (drops_out_) c_.drop_out_embedding(stream, pass);
}

template <typename S>
void InputProjection<S>::backward_weight(float* gradients, const S* stream, const float* features) {
  const RankShape& s = c_.shape;
  const S* const rows = c_.gather_rows(stream, c_.workspace.gathered);
  c_.products.run({s.hidden, s.features, s.rows, matrix(rows, s.hidden, Transpose::kYes),
                   matrix(features, s.features), result(gradients + weight_, s.features), 1.0F,
                   true});
  c_.kernels.add_column_sums(gradients + bias_, rows, s.rows, s.hidden, s.hidden, 1);
}

template class InputProjection<float>;
template class InputProjection<BFloat16>;
template class InputProjection<Float16>;

}  // namespace nqd::engine
