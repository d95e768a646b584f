// config.json of Hugging Face models: names and defaults are those of the configuration classes in
// github.com/huggingface/transformers.
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/config/suggest.h"
#include "planner/import/foreign_tree.h"
#include "planner/import/hugging_face_constants.h"
#include "planner/import/importers.h"

namespace nqd::planner {
namespace {

constexpr std::string_view kNoWeights = "it has no weights and no activations of its own";

// What the models of one `model_type` have in common.
struct Architecture {
  std::string_view type;
  std::string_view family;
  bool gated = false;
  bool bias = false;
  bool qkv_bias = false;
  bool rms = false;
  std::string_view positions;
  bool tied = false;  // the default of tie_word_embeddings
  void (*shape)(ForeignTable&);
  std::int64_t kv_heads = 0;  // the default of num_key_value_heads; 0 = as many as heads
};

void read_or(ForeignTable& t, std::string_view key, std::string_view path, Value fallback) {
  t.take(key);
  if (!t.is_null(key)) {
    t.read(key, path);
    return;
  }
  set_default(t.draft(), path, std::move(fallback), "the default of " + std::string(key));
}

// A key that may be null has no value then; true when it was read.
bool read_known(ForeignTable& t, std::string_view key, std::string_view path) {
  if (t.is_null(key)) {
    t.take(key);
    return false;
  }
  return t.read(key, path);
}

void gpt2_shape(ForeignTable& t) {
  read_or(t, "n_layer", "model.layers", std::int64_t{12});
  read_or(t, "n_embd", "model.hidden", std::int64_t{768});
  read_or(t, "n_head", "model.heads", std::int64_t{12});
  read_or(t, "vocab_size", "model.vocab", std::int64_t{50257});
  read_or(t, "n_positions", "model.sequence", std::int64_t{1024});
  t.take("n_ctx");
  if (!read_known(t, "n_inner", "model.ffn_hidden")) {
    set_default(t.draft(), "model.ffn_hidden", 4 * t.draft().integer("model.hidden"),
                "the default of n_inner: 4 · n_embd");
  }
}

void common_shape(ForeignTable& t) {
  t.read("num_hidden_layers", "model.layers");
  t.read("hidden_size", "model.hidden");
  t.read("num_attention_heads", "model.heads");
  t.read("vocab_size", "model.vocab");
  t.read("max_position_embeddings", "model.sequence");
}

void llama_shape(ForeignTable& t) {
  common_shape(t);
  t.read("intermediate_size", "model.ffn_hidden");
  read_known(t, "num_key_value_heads", "model.kv_heads");
  read_known(t, "head_dim", "model.head_dim");
  if (t.boolean("attention_bias")) {
    t.derive("attention_bias", "model.qkv_bias", true, "its output projection's is not counted");
    t.drop("attention_bias", "nqd counts the bias of query, key and value, not of the output");
  }
  if (t.boolean("mlp_bias")) t.drop("mlp_bias", "nqd has a bias in all linear layers or in none");
}

void mixtral_shape(ForeignTable& t) {
  llama_shape(t);
  t.read("num_local_experts", "model.moe.experts");
  t.read("num_experts_per_tok", "model.moe.experts_per_token");
  const std::int64_t width = t.draft().integer("model.ffn_hidden");
  if (width > 0) t.set("intermediate_size", "model.moe.expert_hidden", width);
}

// Queries and keys are normalised head by head.
void qwen3_shape(ForeignTable& t) {
  llama_shape(t);
  t.derive("model_type", "model.qk_norm", true, "of this architecture");
}

void default_head_dim(ForeignTable& t, std::int64_t width) {
  if (t.has("head_dim")) return;
  set_default(t.draft(), "model.head_dim", width, "the default of head_dim");
}

void qwen3_dense_shape(ForeignTable& t) {
  qwen3_shape(t);
  default_head_dim(t, 128);
}

// null means as many as heads, which is also what is left where the default divides no heads: the
// class would refuse them.
void default_kv_heads(ForeignTable& t, std::int64_t count) {
  const std::int64_t heads = t.draft().integer("model.heads");
  if (t.has("num_key_value_heads") || heads == 0 || count == 0 || heads % count != 0) return;
  set_default(t.draft(), "model.kv_heads", count, "the default of num_key_value_heads");
}

void gemma_shape(ForeignTable& t) {
  llama_shape(t);
  default_head_dim(t, 256);
}

// A layer has experts when decoder_sparse_step divides its number from 1 and mlp_only_layers does
// not name it, which counts from 0.
void expert_layers(ForeignTable& t) {
  constexpr std::string_view kReason =
      "nqd has experts in all layers behind the first dense ones: the parameters that it counts "
      "are not those of this model";
  if (t.is_text("decoder_sparse_step", "1")) {
    t.take("decoder_sparse_step");
  } else {
    t.drop("decoder_sparse_step", std::string(kReason));
  }
  const YamlEntry* dense = t.take("mlp_only_layers");
  if (dense == nullptr || dense->value.items.empty()) return;
  std::int64_t first = 0;
  for (const YamlNode& layer : dense->value.items) {
    if (layer.text != std::to_string(first)) {
      return t.drop("mlp_only_layers", std::string(kReason));
    }
    ++first;
  }
  t.derive("mlp_only_layers", "model.moe.dense_layers", first, "the first layers");
}

void qwen_experts(ForeignTable& t) {
  t.read("num_experts", "model.moe.experts");
  t.read("num_experts_per_tok", "model.moe.experts_per_token");
  t.read("moe_intermediate_size", "model.moe.expert_hidden");
  expert_layers(t);
}

void qwen3_moe_shape(ForeignTable& t) {
  qwen3_shape(t);
  qwen_experts(t);
}

void qwen2_moe_shape(ForeignTable& t) {
  llama_shape(t);
  qwen_experts(t);
  t.read("shared_expert_intermediate_size", "model.moe.shared_expert_hidden");
  t.derive("model_type", "model.moe.shared_gate", true, "of this architecture");
}

void starcoder2_shape(ForeignTable& t) {
  common_shape(t);
  t.read("intermediate_size", "model.ffn_hidden");
  read_known(t, "num_key_value_heads", "model.kv_heads");
  if (t.boolean("use_bias", true)) return;
  t.set("use_bias", "model.bias", false);
  t.set("use_bias", "model.qkv_bias", false);
}

void deepseek_shape(ForeignTable& t) {
  ImportDraft& draft = t.draft();
  common_shape(t);
  t.read("intermediate_size", "model.ffn_hidden");
  // With latent attention every head has its own key and value.
  t.drop("num_key_value_heads", "latent attention has no groups");
  read_known(t, "q_lora_rank", "model.mla.q_lora_rank");
  t.read("kv_lora_rank", "model.mla.kv_lora_rank");
  t.read("qk_nope_head_dim", "model.mla.qk_nope_head_dim");
  t.read("qk_rope_head_dim", "model.mla.qk_rope_head_dim");
  t.read("v_head_dim", "model.mla.v_head_dim");
  t.read("n_routed_experts", "model.moe.experts");
  t.read("num_experts_per_tok", "model.moe.experts_per_token");
  t.read("moe_intermediate_size", "model.moe.expert_hidden");
  t.read("first_k_dense_replace", "model.moe.dense_layers");
  t.read("num_nextn_predict_layers", "model.mtp_layers");
  const std::int64_t width = draft.integer("model.moe.expert_hidden");
  const std::optional<std::int64_t> shared =
      t.is_null("n_shared_experts") ? std::nullopt : t.integer("n_shared_experts", {0, 4096});
  if (shared) {
    t.derive("n_shared_experts", "model.moe.shared_expert_hidden", *shared * width,
             "· moe_intermediate_size");
  }
  if (t.is_text("moe_layer_freq", "1")) t.take("moe_layer_freq");
}

void deepseek_v3_shape(ForeignTable& t) {
  deepseek_shape(t);
  t.derive("model_type", "model.moe.router_bias", true, "of this architecture");
}

void neox_shape(ForeignTable& t) {
  common_shape(t);
  t.read("intermediate_size", "model.ffn_hidden");
  if (!t.boolean("attention_bias", true)) t.set("attention_bias", "model.qkv_bias", false);
}

void opt_shape(ForeignTable& t) {
  common_shape(t);
  t.read("ffn_dim", "model.ffn_hidden");
  if (t.is_text("word_embed_proj_dim", std::to_string(t.draft().integer("model.hidden")))) {
    t.take("word_embed_proj_dim");
  }
  if (!t.boolean("enable_bias", true)) t.set("enable_bias", "model.bias", false);
  t.draft().warn(t.at("model_type", "NQD2318",
                      "this model has two rows of position embedding more than nqd counts"));
}

void vit_shape(ForeignTable& t) {
  ImportDraft& draft = t.draft();
  read_or(t, "num_hidden_layers", "model.layers", std::int64_t{12});
  read_or(t, "hidden_size", "model.hidden", std::int64_t{768});
  read_or(t, "num_attention_heads", "model.heads", std::int64_t{12});
  read_or(t, "intermediate_size", "model.ffn_hidden", std::int64_t{3072});
  read_or(t, "image_size", "model.image.size", std::int64_t{224});
  read_or(t, "patch_size", "model.image.patch", std::int64_t{16});
  read_or(t, "num_channels", "model.image.channels", std::int64_t{3});
  const std::int64_t patch = draft.integer("model.image.patch");
  if (patch > 0) {
    const std::int64_t side = draft.integer("model.image.size") / patch;
    set_default(draft, "model.sequence", side * side + 1, "patches of a picture, and the class");
  }
  if (!t.boolean("qkv_bias", true)) t.set("qkv_bias", "model.qkv_bias", false);
  if (const YamlEntry* labels = t.take("id2label");
      labels != nullptr && labels->value.kind == YamlNode::Kind::kMap) {
    const auto classes = static_cast<std::int64_t>(labels->value.entries.size());
    t.derive("id2label", "model.image.classes", classes, std::to_string(classes) + " entries");
    t.take("label2id");
  }
  t.read("num_labels", "model.image.classes");
}

constexpr Architecture kArchitectures[] = {
    {"gpt2", "gpt", false, true, true, false, "learned", true, gpt2_shape},
    {"llama", "llama", true, false, false, true, "rotary", false, llama_shape},
    {"mistral", "llama", true, false, false, true, "rotary", false, llama_shape, 8},
    {"qwen2", "llama", true, false, true, true, "rotary", false, llama_shape, 32},
    {"qwen2_moe", "moe", true, false, true, true, "rotary", false, qwen2_moe_shape, 16},
    {"qwen3", "llama", true, false, false, true, "rotary", false, qwen3_dense_shape, 32},
    {"qwen3_moe", "moe", true, false, false, true, "rotary", false, qwen3_moe_shape, 4},
    {"gemma", "llama", true, false, false, true, "rotary", true, gemma_shape, 16},
    {"phi3", "llama", true, false, false, true, "rotary", false, llama_shape},
    {"starcoder2", "gpt", false, true, true, false, "rotary", true, starcoder2_shape, 2},
    {"mixtral", "moe", true, false, false, true, "rotary", false, mixtral_shape, 8},
    {"deepseek_v2", "moe", true, false, false, true, "rotary", false, deepseek_shape},
    {"deepseek_v3", "moe", true, false, false, true, "rotary", false, deepseek_v3_shape},
    {"gpt_neox", "gpt", false, true, true, false, "rotary", false, neox_shape},
    {"opt", "gpt", false, true, true, false, "learned", true, opt_shape},
    {"vit", "vit", false, true, true, false, "learned", false, vit_shape},
};

const Architecture* find_architecture(ForeignTable& root) {
  const std::string type = root.text("model_type").value_or("");
  std::vector<std::string_view> types;
  for (const Architecture& architecture : kArchitectures) {
    if (architecture.type == type) return &architecture;
    types.push_back(architecture.type);
  }
  Diagnostic diagnostic =
      root.at("model_type", "NQD2304",
              root.has("model_type") ? "nqd does not know model_type \"" + printable(type) + "\""
                                     : "the config has no model_type");
  diagnostic.expected = "one of " + joined(types);
  if (const std::optional<std::string> meant = closest(type, types)) {
    diagnostic.hint = "did you mean " + *meant + "?";
  }
  root.draft().report(std::move(diagnostic));
  return nullptr;
}

void import_dropout(ForeignTable& root) {
  bool any = false;
  for (const std::string_view key :
       {"resid_pdrop", "attn_pdrop", "attention_dropout", "hidden_dropout", "dropout",
        "hidden_dropout_prob", "attention_probs_dropout_prob"}) {
    const bool has = root.has(key);
    const bool drops = has && root.number(key, {0, 1}).value_or(0) > 0;
    if (has && (drops || !any)) root.set(key, "train.dropout", drops || any);
    any = any || drops;
  }
}

}  // namespace

void import_hugging_face(const Source& config, ImportDraft& draft) {
  const std::optional<YamlNode> tree = parse_json(config, draft.diagnostics());
  if (!tree) return;
  ForeignTable root(config, *tree, "", draft);
  const Architecture* architecture = find_architecture(root);
  if (architecture == nullptr) return;
  root.set("model_type", "model.family", std::string(architecture->family));
  const auto fixed = [&](std::string_view path, Value value) {
    root.derive("model_type", path, std::move(value), "of this architecture");
  };
  fixed("model.gated_mlp", architecture->gated);
  fixed("model.bias", architecture->bias);
  fixed("model.qkv_bias", architecture->qkv_bias);
  fixed("model.norm", std::string(architecture->rms ? "rmsnorm" : "layernorm"));
  fixed("model.positions", std::string(architecture->positions));
  architecture->shape(root);
  default_kv_heads(root, architecture->kv_heads);
  if (architecture->family != "vit") {
    read_or(root, "tie_word_embeddings", "model.tied_head", architecture->tied);
  }
  import_hugging_face_constants(root, architecture->type);
  import_dropout(root);
  constexpr Reason kReasons[] = {
      {"torch_dtype", "the type of the stored weights, not of training"},
      {"dtype", "the type of the stored weights, not of training"},
      {"sliding_window", "nqd counts attention over the whole sequence"},
      {"use_sliding_window", "nqd counts attention over the whole sequence"},
      {"max_window_layers", "nqd counts attention over the whole sequence"},
      {"architectures", "model_type says it"},
      {"auto_map", "model_type says it"},
      {"quantization_config", "the stored weights' type, not that of training"},
      {"transformers_version", "no part of the model"},
      {"_name_or_path", "no part of the model"},
      {"*", kNoWeights}};
  root.drop_rest(kReasons, kNoWeights);
}

}  // namespace nqd::planner
