#include "planner/models/dimensions.h"

#include <algorithm>

namespace nqd::planner {
namespace {

std::int64_t or_else(std::int64_t value, std::int64_t fallback) {
  return value > 0 ? value : fallback;
}

void set_heads(const ModelSpec& model, Dimensions& d) {
  d.heads = std::max<std::int64_t>(model.heads, 1);
  d.kv_heads = or_else(model.kv_heads, d.heads);
  d.qk_dim = or_else(model.head_dim, model.hidden / d.heads);
  d.v_dim = d.qk_dim;
  d.mla = model.mla.kv_lora_rank > 0;
  if (d.mla) {
    // Every head has keys and values of its own once they are decompressed.
    d.kv_heads = d.heads;
    d.qk_dim = model.mla.qk_nope_head_dim + model.mla.qk_rope_head_dim;
    d.v_dim = model.mla.v_head_dim;
  }
  d.queries = d.heads * d.qk_dim;
  d.keys = d.kv_heads * d.qk_dim;
  d.values = d.kv_heads * d.v_dim;
  d.context = d.heads * d.v_dim;
}

void set_ends(const ModelSpec& model, Dimensions& d) {
  d.tokens = model.sequence;
  d.outputs = model.vocab;
  if (model.family == "vit") {
    const std::int64_t side = model.image.patch > 0 ? model.image.size / model.image.patch : 0;
    d.tokens = side * side + 1;
    d.patch_elements = model.image.channels * model.image.patch * model.image.patch;
    d.outputs = model.image.classes;
  } else if (model.family == "timeseries") {
    d.patch_elements = model.input_features;
    d.outputs = model.output_features;
  }
  d.targets = d.classifies() ? 1 : d.tokens;
}

}  // namespace

Dimensions dimensions_of(const ModelSpec& model) {
  Dimensions d;
  d.hidden = model.hidden;
  set_heads(model, d);
  d.ffn = or_else(model.ffn_hidden, 4 * model.hidden);
  d.gates = model.gated_mlp ? 2 : 1;
  d.moe = model.family == "moe" && model.moe.experts > 0;
  d.expert_ffn = or_else(model.moe.expert_hidden, d.ffn);
  set_ends(model, d);
  return d;
}

bool is_plain_gpt(const ModelSpec& model) {
  const Dimensions d = dimensions_of(model);
  return model.family == "gpt" && model.norm == Norm::kLayerNorm &&
         model.positions == Positions::kLearned && model.bias && model.qkv_bias && model.causal &&
         !model.gated_mlp && !d.mla && d.kv_heads == d.heads && d.queries == d.hidden &&
         model.mtp_layers == 0 && !model.qk_norm;
}

}  // namespace nqd::planner
