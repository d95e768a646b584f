// What makes logits and their loss of the final norm's output.
#pragma once

#include "engine/models/transformer/chunk_buffers.h"
#include "engine/models/transformer/context.h"

namespace nqd::engine {

// `weights` and `gradients` begin at the layer's matrix in their unit.
template <typename S>
class OutputLayer {
 public:
  virtual ~OutputLayer() = default;

  // Leaves the losses of the targets in the workspace.
  virtual void forward(const S* weights, const HeadBuffers<S>& a) = 0;
  // The logits become their gradient, and that of the norm's output [R, h], reduced over tp, is
  // left where UnitContext::norm_gradient reads it.
  virtual void backward_input(const S* weights, const HeadBuffers<S>& a, const Pass& pass) = 0;
  virtual void backward_weight(float* gradients, const HeadBuffers<S>& a) = 0;
};

}  // namespace nqd::engine
