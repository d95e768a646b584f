// The end of an encoder: the mean over a sample's time steps, and the logits of its classes with
// their cross-entropy. Every tp rank has all the classes and computes the same.
#pragma once

#include <cstdint>

#include "engine/models/transformer/output_layer.h"
#include "engine/models/transformer/unit_context.h"

namespace nqd::engine {

template <typename S>
class Classifier final : public OutputLayer<S> {
 public:
  Classifier(const planner::LocalUnit& head, UnitContext<S>& context);

  void forward(const S* weights, const HeadBuffers<S>& a) override;
  void backward_input(const S* weights, const HeadBuffers<S>& a, const Pass& pass) override;
  void backward_weight(float* gradients, const HeadBuffers<S>& a) override;

 private:
  UnitContext<S>& c_;
  std::int64_t bias_;  // from the weight
};

}  // namespace nqd::engine
