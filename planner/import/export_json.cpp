#include <nlohmann/json.hpp>
#include <string>
#include <utility>

#include "planner/config/field.h"
#include "planner/import/export_writers.h"

namespace nqd::planner {
namespace {

using Json = nlohmann::ordered_json;

void list(ExportResult& result, std::string path, std::string value, std::string reason) {
  result.inexpressible.push_back({std::move(path), std::move(value), std::move(reason)});
}

// Both forms are read by every version of transformers that knows the scaling.
void add_rotary(Json& json, const ModelSpec& m, const char* base_key) {
  json[base_key] = m.rope_base;
  const RopeScaling& scaling = m.rope_scaling;
  if (scaling.factor == 1) return;
  json["rope_scaling"] = {
      {"rope_type", "llama3"},
      {"factor", scaling.factor},
      {"low_freq_factor", scaling.low_freq_factor},
      {"high_freq_factor", scaling.high_freq_factor},
      {"original_max_position_embeddings", scaling.original_max_position_embeddings}};
}

Json common(const ModelSpec& m, std::string_view type) {
  return {{"model_type", type},
          {"num_hidden_layers", m.layers},
          {"hidden_size", m.hidden},
          {"num_attention_heads", m.heads},
          {"intermediate_size", m.ffn_hidden},
          {"vocab_size", m.vocab},
          {"max_position_embeddings", m.sequence},
          {"tie_word_embeddings", m.tied_head}};
}

// What GPT-2, GPT-NeoX and StarCoder2 have in common, and cannot vary.
bool is_gpt(const ModelSpec& m) {
  return m.family == "gpt" && !m.gated_mlp && m.norm == Norm::kLayerNorm && m.causal &&
         m.head_dim * m.heads == m.hidden;
}

bool is_gpt2(const ModelSpec& m) {
  return is_gpt(m) && m.bias && m.qkv_bias && m.positions == Positions::kLearned &&
         m.kv_heads == m.heads;
}

bool is_neox(const ModelSpec& m) {
  return is_gpt(m) && m.bias && m.positions == Positions::kRotary && m.kv_heads == m.heads;
}

bool is_starcoder2(const ModelSpec& m) {
  return is_gpt(m) && m.bias == m.qkv_bias && m.positions == Positions::kRotary;
}

// llama and its kin: everything that their config.json cannot vary.
bool is_llama(const ModelSpec& m) {
  return (m.family == "llama" || m.family == "moe" || m.family == "gpt") && m.gated_mlp &&
         !m.bias && m.norm == Norm::kRmsNorm && m.positions == Positions::kRotary && m.causal;
}

Json gpt2_json(const ModelSpec& m) {
  return {{"model_type", "gpt2"},
          {"n_layer", m.layers},
          {"n_embd", m.hidden},
          {"n_head", m.heads},
          {"n_inner", m.ffn_hidden},
          {"vocab_size", m.vocab},
          {"n_positions", m.sequence},
          {"layer_norm_epsilon", m.norm_epsilon},
          {"tie_word_embeddings", m.tied_head}};
}

Json neox_json(const ModelSpec& m) {
  Json json = common(m, "gpt_neox");
  json["layer_norm_eps"] = m.norm_epsilon;
  add_rotary(json, m, "rotary_emb_base");
  json["attention_bias"] = m.qkv_bias;
  return json;
}

Json starcoder2_json(const ModelSpec& m) {
  Json json = common(m, "starcoder2");
  json["norm_epsilon"] = m.norm_epsilon;
  add_rotary(json, m, "rope_theta");
  json["num_key_value_heads"] = m.kv_heads;
  json["use_bias"] = m.bias;
  return json;
}

// A picture's patches and class token are the sequence.
Json vit_json(const ModelSpec& m) {
  return {{"model_type", "vit"},
          {"num_hidden_layers", m.layers},
          {"hidden_size", m.hidden},
          {"num_attention_heads", m.heads},
          {"intermediate_size", m.ffn_hidden},
          {"image_size", m.image.size},
          {"patch_size", m.image.patch},
          {"num_channels", m.image.channels},
          {"num_labels", m.image.classes},
          {"layer_norm_eps", m.norm_epsilon},
          {"qkv_bias", m.qkv_bias}};
}

Json deepseek_json(const ModelSpec& m) {
  Json json = common(m, m.moe.router_bias ? "deepseek_v3" : "deepseek_v2");
  json["rms_norm_eps"] = m.norm_epsilon;
  add_rotary(json, m, "rope_theta");
  json["q_lora_rank"] = m.mla.q_lora_rank > 0 ? Json(m.mla.q_lora_rank) : Json();
  json["kv_lora_rank"] = m.mla.kv_lora_rank;
  json["qk_nope_head_dim"] = m.mla.qk_nope_head_dim;
  json["qk_rope_head_dim"] = m.mla.qk_rope_head_dim;
  json["v_head_dim"] = m.mla.v_head_dim;
  json["n_routed_experts"] = m.moe.experts;
  json["num_experts_per_tok"] = m.moe.experts_per_token;
  json["moe_intermediate_size"] = m.moe.expert_hidden;
  json["first_k_dense_replace"] = m.moe.dense_layers;
  json["num_nextn_predict_layers"] = m.mtp_layers;
  json["n_shared_experts"] = m.moe.shared_expert_hidden / m.moe.expert_hidden;
  return json;
}

std::string_view llama_type(const ModelSpec& m) {
  if (m.moe.experts == 0) return m.qk_norm ? "qwen3" : m.qkv_bias ? "qwen2" : "llama";
  if (m.moe.shared_gate) return "qwen2_moe";
  return m.qk_norm ? "qwen3_moe" : "mixtral";
}

Json llama_json(const ModelSpec& m) {
  const std::string_view type = llama_type(m);
  Json json = common(m, type);
  json["rms_norm_eps"] = m.norm_epsilon;
  add_rotary(json, m, "rope_theta");
  json["num_key_value_heads"] = m.kv_heads;
  json["head_dim"] = m.head_dim;
  if (type == "qwen3" || type == "qwen3_moe") json["attention_bias"] = m.qkv_bias;
  if (m.moe.experts == 0) return json;
  json["num_experts_per_tok"] = m.moe.experts_per_token;
  if (type == "mixtral") {
    json["intermediate_size"] = m.moe.expert_hidden;
    json["num_local_experts"] = m.moe.experts;
    return json;
  }
  json["num_experts"] = m.moe.experts;
  json["moe_intermediate_size"] = m.moe.expert_hidden;
  json["decoder_sparse_step"] = 1;
  json["mlp_only_layers"] = Json::array();
  for (std::int64_t i = 0; i < m.moe.dense_layers; ++i) json["mlp_only_layers"].push_back(i);
  if (type == "qwen2_moe") json["shared_expert_intermediate_size"] = m.moe.shared_expert_hidden;
  return json;
}

// Null when no architecture has this shape. What a shape lacks room for without being another one,
// such as an expert's capacity, is for export_config to find.
Json model_json(const ModelSpec& m) {
  if (is_gpt2(m)) return gpt2_json(m);
  if (is_neox(m)) return neox_json(m);
  if (is_starcoder2(m)) return starcoder2_json(m);
  if (m.family == "vit") return vit_json(m);
  if (!is_llama(m)) return {};
  const bool experts = m.moe.experts > 0;
  if (m.mla.kv_lora_rank > 0) {
    const bool whole = experts && m.moe.expert_hidden > 0 &&
                       m.moe.shared_expert_hidden % m.moe.expert_hidden == 0 && !m.qkv_bias;
    return whole ? deepseek_json(m) : Json();
  }
  if (m.mtp_layers > 0 || m.moe.router_bias) return {};
  const bool shared = m.moe.shared_expert_hidden > 0;
  const bool plain = !m.qk_norm && !m.qkv_bias && m.moe.dense_layers == 0;
  const bool known =
      m.moe.shared_gate ? shared && m.qkv_bias && !m.qk_norm : !shared && (m.qk_norm || plain);
  if (experts && !known) return {};
  return llama_json(m);
}

std::string_view deepspeed_optimizer(OptimizerKind kind) {
  return kind == OptimizerKind::kAdamW ? "AdamW" : "SGD";
}

Json optimizer_json(const OptimizerSpec& o) {
  Json params = {{"lr", o.learning_rate}, {"weight_decay", o.weight_decay}};
  if (o.kind == OptimizerKind::kAdamW) {
    params["betas"] = {o.beta1, o.beta2};
    params["eps"] = o.epsilon;
  }
  if (o.kind == OptimizerKind::kSgdMomentum) params["momentum"] = o.beta1;
  return {{"type", deepspeed_optimizer(o.kind)}, {"params", std::move(params)}};
}

Json zero_json(const Config& c) {
  constexpr int kStages[] = {0, 1, 2, 3, 3};
  const bool wide = c.train.precision == Precision::kFloat32;
  Json zero = {{"stage", kStages[static_cast<int>(c.parallel.engine)]},
               {"reduce_bucket_size", c.train.bucket_bytes / (wide ? 4 : 2)}};
  if (c.parallel.engine == Engine::kHsdp) zero["mics_shard_size"] = c.parallel.hsdp_shard;
  if (c.train.optimizer.offload) zero["offload_optimizer"] = {{"device", "cpu"}};
  return zero;
}

}  // namespace

ExportResult write_hugging_face(const Config& config) {
  ExportResult result;
  const Json json = model_json(config.model);
  if (json.is_null()) {
    list(result, "model.family", config.model.family,
         "no model_type that nqd knows has this shape");
    return result;
  }
  result.text = json.dump(2) + "\n";
  return result;
}

ExportResult write_deepspeed(const Config& config) {
  ExportResult result;
  const TrainSpec& t = config.train;
  Json json = {{"train_batch_size", t.global_batch_size},
               {"train_micro_batch_size_per_gpu", t.micro_batch_size},
               {"gradient_accumulation_steps", config.micro_batches()},
               {"gradient_clipping", t.optimizer.grad_clip}};
  if (t.precision == Precision::kFloat16) json["fp16"] = {{"enabled", true}};
  if (t.precision == Precision::kBFloat16) json["bf16"] = {{"enabled", true}};
  if (t.precision == Precision::kFp8) {
    json["bf16"] = {{"enabled", true}};
    list(result, "train.precision", "fp8", "written as bf16");
  }
  constexpr std::string_view kTypes[] = {"fp32", "bf16", "fp16", "bf16"};
  json["data_types"] = {{"grad_accum_dtype", kTypes[static_cast<int>(t.gradient_precision)]}};
  json["zero_optimization"] = zero_json(config);
  json["optimizer"] = optimizer_json(t.optimizer);
  if (config.parallel.tp > 1) json["tensor_parallel"] = {{"autotp_size", config.parallel.tp}};
  if (config.parallel.pp > 1) json["pipeline"] = {{"stages", config.parallel.pp}};
  if (t.runtime != Runtime::kDeepSpeed) {
    list(result, "train.runtime", std::string(name(t.runtime)), "these are DeepSpeed's settings");
  }
  result.text = json.dump(2) + "\n";
  return result;
}

std::string export_json(const ExportResult& result) {
  Json keys = Json::array();
  for (const InexpressibleKey& key : result.inexpressible) {
    keys.push_back({{"path", key.path}, {"value", key.value}, {"reason", key.reason}});
  }
  const Json json = {{"text", result.text.empty() ? Json() : Json(result.text)},
                     {"inexpressible", std::move(keys)}};
  return json.dump(2, ' ', false, Json::error_handler_t::replace) + "\n";
}

}  // namespace nqd::planner
