// A GPT-2-like decoder in float32 on the CPU with an explicit backward pass.
//
// x = E_token[t] + E_position[i]; each layer: x += proj(attention(norm1(x))),
// x += mlp_proj(gelu(fc(norm2(x)))); logits = final_norm(x) · E_tokenᵀ (or an own head);
// causal softmax attention; GELU in the tanh form of GPT-2.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <vector>

#include "base/ledger.h"
#include "planner/layout/layout.h"
#include "planner/spec.h"

namespace nqd::engine {

struct ParameterView {
  planner::TensorSpec spec;
  std::int64_t offset = 0;  // in elements, in the flat weight and gradient arenas
};

class Gpt {
 public:
  // Allocates weights and gradients (in a SharedBuffer, for direct reductions) as two flat arenas
  // in planner::parameters() order (tags kWeights, kGradients; exactly 4 bytes a parameter, no
  // padding) and every tensor of planner::cpu_activations() under its tag. `micro_batch_size`
  // sequences of model.sequence tokens.
  Gpt(const planner::ModelSpec& model, std::int64_t micro_batch_size, MemoryLedger& ledger);

  // Deterministic on any mesh: each element is a pure function of (seed, tensor name, index).
  // N(0, 0.02²), residual projections N(0, (0.02/√(2L))²), biases 0, norm weights 1.
  void initialize(std::uint64_t seed);

  std::span<float> weights();
  std::span<const float> weights() const;
  std::span<float> gradients();
  const std::vector<ParameterView>& parameter_views() const;

  // tokens and targets: micro_batch_size · sequence values in [0, vocab). A target of -1 is masked
  // (no loss, no gradient). Returns the SUM of the cross-entropy over unmasked tokens (natural
  // log), accumulated in double in a fixed order. Keeps what backward needs; alone it is an
  // evaluation. Throws Error (kUsage) for a value outside the vocabulary (NQD2040) or another size
  // (NQD2041).
  double forward(std::span<const std::int32_t> tokens, std::span<const std::int32_t> targets);

  // Adds loss_scale · d(sum of cross-entropy)/d(parameter) into the gradients. After forward.
  // When the gradients of all parameters at or above flat offset `ready_from` are final for this
  // micro-batch, calls on_ready(ready_from), descending, ending with 0.
  void backward(float loss_scale,
                const std::function<void(std::int64_t ready_from)>& on_ready = {});

  void zero_gradients();

 private:
  struct Impl;
  std::shared_ptr<Impl> impl_;
};

}  // namespace nqd::engine
