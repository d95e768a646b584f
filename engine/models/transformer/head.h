// The end of a decoder: the final norm, and the logits with their cross-entropy, whose vocabulary
// is split over the tp ranks.
#pragma once

#include <cstdint>
#include <span>

#include "engine/cpu/cross_entropy.h"
#include "engine/models/transformer/output_layer.h"
#include "engine/models/transformer/unit_context.h"

namespace nqd::engine {

template <typename S>
class FinalNorm {
 public:
  FinalNorm(const planner::LocalUnit& head, UnitContext<S>& context);

  // a.norm.output receives the norm of all rows.
  void forward(const S* weights, const HeadBuffers<S>& a);
  // From what OutputLayer::backward_input left; `stream` [R, h] receives the gradient of a.input.
  void backward_input(const S* weights, const HeadBuffers<S>& a, float* replicated, S* stream);
  void backward_weight(float* gradients, float* replicated);

 private:
  UnitContext<S>& c_;
  std::int64_t weight_, bias_;
  ReplicatedTensors replicated_;
};

// `table` [vocabulary of the rank, h]: the head's weight or the token table.
template <typename S>
class Logits final : public OutputLayer<S> {
 public:
  explicit Logits(UnitContext<S>& context) : c_(context) {}

  void forward(const S* table, const HeadBuffers<S>& a) override;
  void backward_input(const S* table, const HeadBuffers<S>& a, const Pass& pass) override;
  void backward_weight(float* table_gradient, const HeadBuffers<S>& a) override;

 private:
  cpu::LogitsShape logits_shape() const;
  // Whether gradients of logits are stored as S in the place of the logits: where products fuse,
  // one of S and float32 is a slow one.
  bool narrows() const { return sizeof(S) < sizeof(float) && c_.products.fuses(); }
  FixedInput logits_gradient(const HeadBuffers<S>& a, Transpose op) const;

  UnitContext<S>& c_;
};

}  // namespace nqd::engine
