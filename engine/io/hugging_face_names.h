// Which tensors of a Hugging Face checkpoint make up a tensor of nqd.
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/layout/layout.h"
#include "planner/spec.h"

namespace nqd::engine {

// Classes of github.com/huggingface/transformers whose weights nqd reads and writes. mistral reads
// as kLlama; kQwen2 is a Llama with biases of queries, keys and values.
enum class HuggingFaceModel : std::uint8_t { kGpt2, kLlama, kQwen2 };

// Throws Error (kUsage, NQD2072) for a model that none of them has: GPT-2 is LayerNorm, learned
// positions, all biases and as many key as query heads; Llama RMSNorm, rotary positions, a gated
// MLP and no other biases.
HuggingFaceModel hugging_face_model(const planner::ModelSpec& model);

// What the language model's class puts before the names of its base class: "transformer.",
// "model.".
std::string_view name_prefix(HuggingFaceModel kind);

// Rows [row, row + rows) of one of nqd's tensors, a vector having one column.
struct HuggingFacePart {
  std::string name;  // "transformer.h.3.attn.c_attn.weight"
  std::vector<std::int64_t> shape;
  std::int64_t row = 0;
  std::int64_t rows = 0;
  // [in, out]: GPT-2 keeps linear weights (its Conv1D) the other way round.
  bool transposed = false;
};

// Of a tensor of planner::parameters(model), its parts in the order of their rows: queries, keys
// and values are parts of qkv or kv, gate and up of mlp.fc. Rotary positions turn the same pairs of
// columns on both sides (engine/cpu/rotary.h), so no rows change places.
std::vector<HuggingFacePart> hugging_face_parts(const planner::ModelSpec& model,
                                                const planner::TensorSpec& tensor);

}  // namespace nqd::engine
