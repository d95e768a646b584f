// Activation memory as published for GPT with a 4h MLP, dropout and 16-bit activations: Korthikanti
// et al., "Reducing Activation Recomputation in Large Transformer Models" (arXiv:2205.05198), table
// 2 and section 4. For a plan, planner/plan/memory.h counts the tensors of the model at hand
// instead.
#pragma once

#include <array>
#include <cstdint>
#include <string_view>

namespace nqd::planner {

struct GptShape {
  std::int64_t layers = 1;
  std::int64_t hidden = 1;
  std::int64_t heads = 1;
  std::int64_t sequence = 1;
  std::int64_t vocab = 0;  // 0 leaves out embedding, output layer and loss
};
struct GptMesh {
  std::int64_t micro_batch_size = 1;
  std::int64_t tp = 1;
  std::int64_t pp = 1;
  std::int64_t vpp = 1;
};

enum class ActivationVariant : std::uint8_t {
  kTensor,                   // sbh(10 + 24/t + 5as/(ht)); t = 1: sbh(34 + 5as/h)
  kTensorSequence,           // sbh(34/t + 5as/(ht))
  kTensorSelective,          // sbh(10 + 24/t)
  kTensorSequenceSelective,  // sbh·34/t
  kFull,                     // 2sbh
  kFullSharded,              // 2sbh/t, gathered again before the layer is recomputed
};
inline constexpr std::array kActivationVariants = {ActivationVariant::kTensor,
                                                   ActivationVariant::kTensorSequence,
                                                   ActivationVariant::kTensorSelective,
                                                   ActivationVariant::kTensorSequenceSelective,
                                                   ActivationVariant::kFull,
                                                   ActivationVariant::kFullSharded};
std::string_view name(ActivationVariant variant);     // "tensor", "tensor+sequence", …
std::string_view formula(ActivationVariant variant);  // "sbh(10 + 24/t + 5as/(ht))", …

// What one layer keeps of one micro-batch on one tp rank, in bytes.
double layer_bytes(ActivationVariant variant, const GptShape& shape, const GptMesh& mesh);

// How many layers' activations the first stage holds: L, since 1f1b keeps p micro-batches of L/p
// layers; L(1 + (p−1)/(p·v)) when it interleaves v > 1 chunks.
double layers_in_flight(const GptShape& shape, const GptMesh& mesh);

// Beside the layers, on the first stage: masks of the embedding's dropout, sbh·p/t; without a
// pipeline also the inputs of final norm and output layer and the float32 logits, 4sbh/t(1 + V/h).
// 0 without a vocabulary.
double outer_bytes(const GptShape& shape, const GptMesh& mesh);

// layers_in_flight · layer_bytes + outer_bytes.
double activation_bytes(ActivationVariant variant, const GptShape& shape, const GptMesh& mesh);

}  // namespace nqd::planner
