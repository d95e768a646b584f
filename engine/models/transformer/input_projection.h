// The beginning of an encoder: the numbers of every time step become a row of the stream.
#pragma once

#include <cstdint>

#include "engine/models/transformer/unit_context.h"

namespace nqd::engine {

template <typename S>
class InputProjection {
 public:
  InputProjection(const planner::LocalUnit& unit, UnitContext<S>& context, bool drops_out);

  // out [R, h] = features · weightᵀ + bias; features float32 [rows, F].
  void forward(S* out, const S* weights, const float* features, const Pass& pass);
  // `stream` becomes the gradient of the product.
  void backward_input(S* stream, const Pass& pass);
  void backward_weight(float* gradients, const S* stream, const float* features);

 private:
  UnitContext<S>& c_;
  std::int64_t weight_, bias_;
  bool drops_out_;
};

}  // namespace nqd::engine
