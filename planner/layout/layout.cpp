#include "planner/layout/layout.h"

#include <algorithm>
#include <cmath>
#include <utility>

#include "planner/models/dimensions.h"
#include "planner/models/shape.h"

namespace nqd::planner {
namespace {

using Shape = std::vector<std::int64_t>;

// Adds tensors; `decay` follows from the rank, so a caller cannot get it wrong.
class UnitBuilder {
 public:
  explicit UnitBuilder(const ModelSpec& model) : model_(model), d_(dimensions_of(model)) {}

  void add(const std::string& name, const Shape& shape, TensorSplit split) {
    out_.push_back({name, shape, 0, shape.size() > 1, split});
  }
  void add_norm(const std::string& name, std::int64_t width) {
    add(name + ".weight", {width}, TensorSplit::kReplicated);
    if (model_.norm == Norm::kLayerNorm) {
      add(name + ".bias", {width}, TensorSplit::kReplicated);
    }
  }
  // Columns are split, and with them the bias.
  void add_column(const std::string& name, std::int64_t out, std::int64_t in, bool bias,
                  TensorSplit split = TensorSplit::kTensor) {
    add(name + ".weight", {out, in}, split);
    if (bias) add(name + ".bias", {out}, split);
  }
  // A row-parallel product is summed over tp before its bias is added once: every rank keeps all of
  // the bias.
  void add_row(const std::string& name, std::int64_t out, std::int64_t in) {
    add(name + ".weight", {out, in}, TensorSplit::kTensor);
    if (model_.bias) add(name + ".bias", {out}, TensorSplit::kReplicated);
  }

  void add_embedding();
  void add_layer(bool moe);
  void add_mtp();
  void add_head();
  std::vector<TensorSpec> take() { return std::move(out_); }

 private:
  void add_attention();
  void add_latent_attention();
  void add_mlp(const std::string& name, std::int64_t ffn);
  void add_experts();

  const ModelSpec& model_;
  Dimensions d_;
  std::vector<TensorSpec> out_;
};

void UnitBuilder::add_embedding() {
  if (model_.family == "vit") {
    add("embedding.patch.weight", {d_.hidden, d_.patch_elements}, TensorSplit::kReplicated);
    add("embedding.patch.bias", {d_.hidden}, TensorSplit::kReplicated);
    add("embedding.class", {d_.hidden}, TensorSplit::kReplicated);
  } else if (model_.family == "timeseries") {
    add("embedding.input.weight", {d_.hidden, d_.patch_elements}, TensorSplit::kReplicated);
    add("embedding.input.bias", {d_.hidden}, TensorSplit::kReplicated);
  } else {
    add("embedding.token", {model_.vocab, d_.hidden}, TensorSplit::kVocabulary);
  }
  if (model_.positions == Positions::kLearned) {
    add("embedding.position", {d_.tokens, d_.hidden}, TensorSplit::kReplicated);
  }
}

void UnitBuilder::add_attention() {
  if (d_.kv_heads == d_.heads) {
    add_column("attention.qkv", d_.queries + d_.keys + d_.values, d_.hidden, model_.qkv_bias);
  } else {
    add_column("attention.q", d_.queries, d_.hidden, model_.qkv_bias);
    add_column("attention.kv", d_.keys + d_.values, d_.hidden, model_.qkv_bias,
               TensorSplit::kKeyValue);
  }
  if (model_.qk_norm) {
    add_norm("attention.q_norm", d_.qk_dim);
    add_norm("attention.k_norm", d_.qk_dim);
  }
  add_row("attention.proj", d_.hidden, d_.context);
}

// DeepSeek-V2, section 2.1: queries, and keys with values, are compressed, normalised and
// decompressed; the rotary part of the key is shared by the heads.
void UnitBuilder::add_latent_attention() {
  const MlaSpec& mla = model_.mla;
  if (mla.q_lora_rank > 0) {
    add("attention.q_down.weight", {mla.q_lora_rank, d_.hidden}, TensorSplit::kReplicated);
    add_norm("attention.q_norm", mla.q_lora_rank);
    add_column("attention.q_up", d_.queries, mla.q_lora_rank, model_.qkv_bias);
  } else {
    add_column("attention.q", d_.queries, d_.hidden, model_.qkv_bias);
  }
  add("attention.kv_down.weight", {mla.kv_lora_rank + mla.qk_rope_head_dim, d_.hidden},
      TensorSplit::kReplicated);
  add_norm("attention.kv_norm", mla.kv_lora_rank);
  add_column("attention.kv_up", d_.heads * (mla.qk_nope_head_dim + d_.v_dim), mla.kv_lora_rank,
             model_.qkv_bias);
  add_row("attention.proj", d_.hidden, d_.context);
}

void UnitBuilder::add_mlp(const std::string& name, std::int64_t ffn) {
  add_column(name + ".fc", d_.gates * ffn, d_.hidden, model_.bias);
  add_row(name + ".proj", d_.hidden, ffn);
}

void UnitBuilder::add_experts() {
  const MoeSpec& moe = model_.moe;
  add("moe.router.weight", {moe.experts, d_.hidden}, TensorSplit::kReplicated);
  if (moe.router_bias) add("moe.router.bias", {moe.experts}, TensorSplit::kReplicated);
  add("moe.experts.fc.weight", {moe.experts, d_.gates * d_.expert_ffn, d_.hidden},
      TensorSplit::kExpert);
  if (model_.bias) {
    add("moe.experts.fc.bias", {moe.experts, d_.gates * d_.expert_ffn}, TensorSplit::kExpert);
  }
  add("moe.experts.proj.weight", {moe.experts, d_.hidden, d_.expert_ffn}, TensorSplit::kExpert);
  if (model_.bias) add("moe.experts.proj.bias", {moe.experts, d_.hidden}, TensorSplit::kExpert);
  if (moe.shared_expert_hidden == 0) return;
  add_mlp("moe.shared", moe.shared_expert_hidden);
  if (moe.shared_gate) add("moe.shared_gate.weight", {d_.hidden}, TensorSplit::kReplicated);
}

void UnitBuilder::add_layer(bool moe) {
  add_norm("norm1", d_.hidden);
  if (d_.mla) {
    add_latent_attention();
  } else {
    add_attention();
  }
  add_norm("norm2", d_.hidden);
  if (moe) {
    add_experts();
  } else {
    add_mlp("mlp", d_.ffn);
  }
}

// DeepSeek-V3, section 2.2: two norms and a projection of the hidden state joined with the next
// token's embedding, one layer, a norm. Embedding and head are those of the model.
void UnitBuilder::add_mtp() {
  add_norm("token_norm", d_.hidden);
  add_norm("hidden_norm", d_.hidden);
  add("join.weight", {d_.hidden, 2 * d_.hidden}, TensorSplit::kTensor);
  add_layer(d_.moe);
  add_norm("final_norm", d_.hidden);
}

void UnitBuilder::add_head() {
  add_norm("final_norm", d_.hidden);
  if (d_.patch_elements > 0) {
    add("head.weight", {d_.outputs, d_.hidden}, TensorSplit::kReplicated);
    add("head.bias", {d_.outputs}, TensorSplit::kReplicated);
  } else if (!model_.tied_head) {
    add("head.weight", {model_.vocab, d_.hidden}, TensorSplit::kVocabulary);
  }
}

std::string unit_prefix(UnitKind kind, std::int64_t index) {
  switch (kind) {
    case UnitKind::kDense:
    case UnitKind::kMoe:
      return "layers." + std::to_string(index) + ".";
    case UnitKind::kMtp:
      return "mtp." + std::to_string(index) + ".";
    case UnitKind::kEmbedding:
    case UnitKind::kHead:
      return {};
  }
  return {};
}

constexpr UnitKind kUnitKinds[] = {UnitKind::kEmbedding, UnitKind::kDense, UnitKind::kMoe,
                                   UnitKind::kMtp, UnitKind::kHead};

}  // namespace

bool sums_over_rows(const TensorSpec& tensor) {
  return tensor.split == TensorSplit::kReplicated && !tensor.name.starts_with("head.") &&
         !tensor.name.starts_with("embedding.input.");
}

std::vector<TensorSpec> unit_tensors(const ModelSpec& model, UnitKind kind) {
  UnitBuilder unit(model);
  switch (kind) {
    case UnitKind::kEmbedding:
      unit.add_embedding();
      break;
    case UnitKind::kDense:
      unit.add_layer(false);
      break;
    case UnitKind::kMoe:
      unit.add_layer(true);
      break;
    case UnitKind::kMtp:
      unit.add_mtp();
      break;
    case UnitKind::kHead:
      unit.add_head();
      break;
  }
  return unit.take();
}

std::int64_t unit_count(const ModelSpec& model, UnitKind kind) {
  const bool moe = dimensions_of(model).moe;
  const std::int64_t dense = moe ? std::min(model.moe.dense_layers, model.layers) : model.layers;
  switch (kind) {
    case UnitKind::kDense:
      return dense;
    case UnitKind::kMoe:
      return model.layers - dense;
    case UnitKind::kMtp:
      return model.mtp_layers;
    case UnitKind::kEmbedding:
    case UnitKind::kHead:
      return 1;
  }
  return 0;
}

std::vector<TensorSpec> parameters(const ModelSpec& model) {
  std::vector<TensorSpec> out;
  if (!is_transformer(model)) return out;
  std::int64_t unit = 0;
  for (const UnitKind kind : kUnitKinds) {
    const std::vector<TensorSpec> tensors = unit_tensors(model, kind);
    for (std::int64_t i = 0; i < unit_count(model, kind); ++i, ++unit) {
      const std::string prefix = unit_prefix(kind, kind == UnitKind::kMtp ? i : unit - 1);
      for (TensorSpec tensor : tensors) {
        tensor.name.insert(0, prefix);
        tensor.unit = unit;
        out.push_back(std::move(tensor));
      }
    }
  }
  return out;
}

std::int64_t parameter_count(const ModelSpec& model) {
  if (!is_transformer(model)) return std::llround(model_shape(model, TrainSpec{}).parameters);
  std::int64_t count = 0;
  for (const UnitKind kind : kUnitKinds) {
    std::int64_t unit = 0;
    for (const TensorSpec& tensor : unit_tensors(model, kind)) unit += tensor.elements();
    count += unit_count(model, kind) * unit;
  }
  return count;
}

}  // namespace nqd::planner
