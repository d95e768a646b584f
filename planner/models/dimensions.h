// Widths of a transformer layer with the defaults of keys that are 0.
#pragma once

#include "planner/spec.h"

namespace nqd::planner {

struct Dimensions {
  std::int64_t hidden = 0;
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t qk_dim = 0;          // of one query or key head
  std::int64_t v_dim = 0;           // of one value head
  std::int64_t queries = 0;         // heads · qk_dim
  std::int64_t keys = 0;            // kv_heads · qk_dim
  std::int64_t values = 0;          // kv_heads · v_dim
  std::int64_t context = 0;         // heads · v_dim: what the output projection takes
  std::int64_t ffn = 0;             // inner width of the MLP
  std::int64_t gates = 1;           // 2 with a gated MLP: columns of its first product ÷ ffn
  std::int64_t expert_ffn = 0;      // of one routed expert
  std::int64_t tokens = 0;          // of one sample; vit: patches and the class token
  std::int64_t patch_elements = 0;  // vit: channels · patch²; timeseries: input_features; else 0
  std::int64_t outputs = 0;         // columns of the head: vocabulary, classes, output_features
  std::int64_t targets = 0;         // rows of the head a sample: tokens; one of a classifier
  bool mla = false;
  bool moe = false;
  // An encoder: numbers in, the mean over time steps (or a class token) to one class a sample.
  bool classifies() const { return patch_elements > 0; }
};
Dimensions dimensions_of(const ModelSpec& model);

// A GPT-2-like decoder and nothing else, which is what nqd's own engine trains: family gpt with
// LayerNorm, learned positions, biases, as many key as query heads of hidden/heads, two matrices in
// its MLP, causal attention, and no norm on queries and keys.
bool is_plain_gpt(const ModelSpec& model);

}  // namespace nqd::planner
