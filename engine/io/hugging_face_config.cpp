#include "engine/io/hugging_face_config.h"

#include <array>
#include <cmath>
#include <cstdint>
#include <initializer_list>
#include <nlohmann/json.hpp>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "engine/io/hugging_face_names.h"
#include "planner/config/config.h"
#include "planner/config/field.h"
#include "planner/config/source.h"
#include "planner/import/import.h"
#include "planner/models/dimensions.h"

namespace nqd::engine {
namespace {

using Json = nlohmann::ordered_json;

[[noreturn]] void refuse(const std::filesystem::path& file, const std::string& why,
                         const std::string& hint) {
  throw Error(ExitCode::kUsage, "NQD2073", file.string() + ": " + why, hint);
}

constexpr std::size_t kShownBytes = 120;  // of a parser's words in a message
constexpr const char* kOtherFunction =
    "nqd's engine has no such model; its weights would compute something else";

// The model section that `nqd import --from hf` makes of the file.
planner::ModelSpec imported_model(const std::filesystem::path& file, const std::string& text) {
  planner::ImportRequest request;
  request.format = planner::ForeignFormat::kHuggingFace;
  request.files.emplace_back(file.string(), text);
  const planner::ImportResult result = planner::import_config(request);
  if (result.exit_code == ExitCode::kUsage) {
    for (const Diagnostic& diagnostic : result.diagnostics) {
      if (diagnostic.severity == Severity::kError) {
        refuse(file, diagnostic.message, "nqd reads gpt2, llama, mistral and qwen2");
      }
    }
  }
  return planner::load_config_text(result.yaml, file.string()).config.model;
}

struct Size {
  const char* key;
  std::int64_t theirs;
  std::int64_t ours;
};

void check_sizes(const std::filesystem::path& file, const planner::ModelSpec& theirs,
                 const planner::ModelSpec& ours) {
  const planner::Dimensions a = planner::dimensions_of(theirs);
  const planner::Dimensions b = planner::dimensions_of(ours);
  const Size sizes[] = {{"layers", theirs.layers, ours.layers},
                        {"hidden", a.hidden, b.hidden},
                        {"heads", a.heads, b.heads},
                        {"kv_heads", a.kv_heads, b.kv_heads},
                        {"head_dim", a.qk_dim, b.qk_dim},
                        {"ffn_hidden", a.ffn, b.ffn},
                        {"vocab", theirs.vocab, ours.vocab},
                        {"tied_head", theirs.tied_head, ours.tied_head},
                        {"qkv_bias", theirs.qkv_bias, ours.qkv_bias}};
  const std::string hint =
      "`nqd import --from hf " + file.string() + "` writes the model section of these weights";
  for (const Size& size : sizes) {
    if (size.theirs == size.ours) continue;
    refuse(file,
           "these weights have model." + std::string(size.key) + " " + std::to_string(size.theirs) +
               ", the config has " + std::to_string(size.ours),
           hint);
  }
  const bool learned = ours.positions == planner::Positions::kLearned;
  if (learned ? theirs.sequence != ours.sequence : theirs.sequence < ours.sequence) {
    refuse(file,
           "these weights are for sequences of " + std::to_string(theirs.sequence) +
               " tokens, the config has model.sequence " + std::to_string(ours.sequence),
           hint);
  }
}

struct Constant {
  const char* key;
  double theirs;
  double ours;
};

// By how many turns a model is stretched means nothing where the factor is 1.
void check_constants(const std::filesystem::path& file, const planner::ModelSpec& theirs,
                     const planner::ModelSpec& ours) {
  std::vector<Constant> constants = {{"norm_epsilon", theirs.norm_epsilon, ours.norm_epsilon}};
  if (ours.positions == planner::Positions::kRotary) {
    const planner::RopeScaling& a = theirs.rope_scaling;
    const planner::RopeScaling& b = ours.rope_scaling;
    constants.push_back({"rope_base", theirs.rope_base, ours.rope_base});
    constants.push_back({"rope_scaling.factor", a.factor, b.factor});
    if (a.factor != 1) {
      constants.push_back({"rope_scaling.low_freq_factor", a.low_freq_factor, b.low_freq_factor});
      constants.push_back(
          {"rope_scaling.high_freq_factor", a.high_freq_factor, b.high_freq_factor});
      constants.push_back({"rope_scaling.original_max_position_embeddings",
                           static_cast<double>(a.original_max_position_embeddings),
                           static_cast<double>(b.original_max_position_embeddings)});
    }
  }
  for (const Constant& one : constants) {
    if (std::abs(one.theirs - one.ours) <= 1e-9 * one.theirs) continue;
    const std::string key = "model." + std::string(one.key);
    const std::string value = planner::number_text(one.theirs);
    refuse(file,
           "these weights are of a model with " + key + " " + value + ", the config has " +
               planner::number_text(one.ours),
           "set " + key + " to " + value + ", or the weights compute something else");
  }
}

// What the named key says, or what transformers takes in its place.
void require_text(const std::filesystem::path& file, const Json& config, const char* key,
                  const char* fallback, std::initializer_list<std::string_view> known) {
  const std::string value = config.value(key, fallback);
  for (const std::string_view one : known) {
    if (value == one) return;
  }
  refuse(file,
         std::string(key) + " is \"" + planner::printable(value) + "\", not " +
             std::string(*known.begin()),
         kOtherFunction);
}

void require_false(const std::filesystem::path& file, const Json& config, const char* key) {
  if (config.value(key, false)) refuse(file, std::string(key) + " is true", kOtherFunction);
}

void check_rotary(const std::filesystem::path& file, const Json& config) {
  for (const char* key : {"rope_scaling", "rope_parameters"}) {
    if (!config.contains(key) || config.at(key).is_null()) continue;
    const Json& rotary = config.at(key);
    require_text(file, rotary, rotary.contains("rope_type") ? "rope_type" : "type", "default",
                 {"default", "llama3"});
  }
}

// A window of attention that reaches over the whole sequence is none.
void check_window(const std::filesystem::path& file, const Json& config, std::int64_t sequence) {
  const bool used = config.value("use_sliding_window", config.value("model_type", "") != "qwen2");
  if (!used || !config.contains("sliding_window") || config.at("sliding_window").is_null()) return;
  const Json& window = config.at("sliding_window");
  if (!window.is_number_integer())
    refuse(file, "sliding_window is no whole number", kOtherFunction);
  const bool reaches = window.is_number_unsigned() &&
                       window.get<std::uint64_t>() >= static_cast<std::uint64_t>(sequence);
  if (reaches) return;
  refuse(file, "sliding_window is " + window.dump() + ", shorter than model.sequence",
         kOtherFunction);
}

void check_function(const std::filesystem::path& file, const Json& config,
                    const planner::ModelSpec& model) {
  if (hugging_face_model(model) == HuggingFaceModel::kGpt2) {
    require_text(file, config, "model_type", "", {"gpt2"});
    require_text(file, config, "activation_function", "gelu_new",
                 {"gelu_new", "gelu_pytorch_tanh"});
    require_false(file, config, "scale_attn_by_inverse_layer_idx");
    if (!config.value("scale_attn_weights", true)) {
      refuse(file, "scale_attn_weights is false", kOtherFunction);
    }
    return;
  }
  require_text(file, config, "model_type", "", {"llama", "mistral", "qwen2"});
  require_text(file, config, "hidden_act", "silu", {"silu", "swish"});
  check_rotary(file, config);
  check_window(file, config, model.sequence);
}

Json gpt2_config(const planner::ModelSpec& model, const planner::Dimensions& d) {
  return {{"architectures", {"GPT2LMHeadModel"}},
          {"model_type", "gpt2"},
          {"n_layer", model.layers},
          {"n_embd", d.hidden},
          {"n_head", d.heads},
          {"n_inner", d.ffn},
          {"n_positions", model.sequence},
          {"activation_function", "gelu_new"},
          {"layer_norm_epsilon", model.norm_epsilon}};
}

Json llama_config(const planner::ModelSpec& model, const planner::Dimensions& d, bool qwen2) {
  Json json = {{"architectures", {qwen2 ? "Qwen2ForCausalLM" : "LlamaForCausalLM"}},
               {"model_type", qwen2 ? "qwen2" : "llama"},
               {"num_hidden_layers", model.layers},
               {"hidden_size", d.hidden},
               {"num_attention_heads", d.heads},
               {"num_key_value_heads", d.kv_heads},
               {"head_dim", d.qk_dim},
               {"intermediate_size", d.ffn},
               {"max_position_embeddings", model.sequence},
               {"hidden_act", "silu"},
               {"rms_norm_eps", model.norm_epsilon},
               {"rope_theta", model.rope_base}};
  const planner::RopeScaling& scaling = model.rope_scaling;
  if (scaling.factor == 1) return json;
  json["rope_scaling"] = {
      {"rope_type", "llama3"},
      {"factor", scaling.factor},
      {"low_freq_factor", scaling.low_freq_factor},
      {"high_freq_factor", scaling.high_freq_factor},
      {"original_max_position_embeddings", scaling.original_max_position_embeddings}};
  return json;
}

}  // namespace

void check_hugging_face_config(const std::filesystem::path& file, const planner::ModelSpec& model) {
  const std::string text = read_file(file);
  try {
    // Which functions the model has comes first: a missing one explains sizes that differ.
    const Json config = Json::parse(text);
    if (!config.is_object()) refuse(file, "it is no JSON object", "give the model's config.json");
    check_function(file, config, model);
  } catch (const Json::exception& failure) {
    refuse(file, planner::printable(failure.what(), kShownBytes), "give the model's config.json");
  }
  const planner::ModelSpec theirs = imported_model(file, text);
  check_sizes(file, theirs, model);
  check_constants(file, theirs, model);
}

std::string hugging_face_config(const planner::ModelSpec& model, DType type) {
  const planner::Dimensions d = planner::dimensions_of(model);
  const HuggingFaceModel kind = hugging_face_model(model);
  Json config = kind == HuggingFaceModel::kGpt2
                    ? gpt2_config(model, d)
                    : llama_config(model, d, kind == HuggingFaceModel::kQwen2);
  config["vocab_size"] = model.vocab;
  config["tie_word_embeddings"] = model.tied_head;
  config["torch_dtype"] = std::string(name(type));
  return config.dump(2) + "\n";
}

}  // namespace nqd::engine
