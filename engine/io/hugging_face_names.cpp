#include "engine/io/hugging_face_names.h"

#include <algorithm>
#include <array>
#include <span>
#include <stdexcept>

#include "base/error.h"
#include "planner/models/dimensions.h"

namespace nqd::engine {
namespace {

// Modules: what stands before ".weight" and ".bias", in a layer behind its number.
struct Row {
  std::string_view ours;
  std::array<std::string_view, 3> theirs;
  bool transposed = false;
};

constexpr Row kGpt2Rows[] = {{"embedding.token", {"transformer.wte"}},
                             {"embedding.position", {"transformer.wpe"}},
                             {"norm1", {"ln_1"}},
                             {"attention.qkv", {"attn.c_attn"}, true},
                             {"attention.proj", {"attn.c_proj"}, true},
                             {"norm2", {"ln_2"}},
                             {"mlp.fc", {"mlp.c_fc"}, true},
                             {"mlp.proj", {"mlp.c_proj"}, true},
                             {"final_norm", {"transformer.ln_f"}},
                             {"head", {"lm_head"}}};

constexpr Row kLlamaRows[] = {
    {"embedding.token", {"model.embed_tokens"}},
    {"norm1", {"input_layernorm"}},
    {"attention.qkv", {"self_attn.q_proj", "self_attn.k_proj", "self_attn.v_proj"}},
    {"attention.q", {"self_attn.q_proj"}},
    {"attention.kv", {"self_attn.k_proj", "self_attn.v_proj"}},
    {"attention.proj", {"self_attn.o_proj"}},
    {"norm2", {"post_attention_layernorm"}},
    {"mlp.fc", {"mlp.gate_proj", "mlp.up_proj"}},
    {"mlp.proj", {"mlp.down_proj"}},
    {"final_norm", {"model.norm"}},
    {"head", {"lm_head"}}};

std::span<const Row> rows_of(HuggingFaceModel kind) {
  if (kind == HuggingFaceModel::kGpt2) return kGpt2Rows;
  return kLlamaRows;
}

struct SplitName {
  std::string layer;   // "3", or empty
  std::string module;  // "attention.qkv"
  std::string leaf;    // "weight" or "bias"
};

SplitName split(const std::string& name) {
  SplitName out;
  std::string rest = name;
  if (constexpr std::string_view kLayers = "layers."; rest.starts_with(kLayers)) {
    rest.erase(0, kLayers.size());
    const std::size_t dot = rest.find('.');
    out.layer = rest.substr(0, dot);
    rest.erase(0, dot + 1);
  }
  // Embeddings are tensors without a module.
  const bool table = rest.starts_with("embedding.");
  const std::size_t dot = table ? std::string::npos : rest.rfind('.');
  out.module = rest.substr(0, dot);
  out.leaf = table ? "weight" : rest.substr(dot + 1);
  return out;
}

std::int64_t part_rows(const planner::Dimensions& d, std::string_view module, std::int64_t all) {
  if (module == "self_attn.q_proj") return d.queries;
  if (module == "self_attn.k_proj") return d.keys;
  if (module == "self_attn.v_proj") return d.values;
  if (module == "mlp.gate_proj" || module == "mlp.up_proj") return d.ffn;
  return all;
}

}  // namespace

HuggingFaceModel hugging_face_model(const planner::ModelSpec& model) {
  if (planner::is_plain_gpt(model)) return HuggingFaceModel::kGpt2;
  const planner::Dimensions d = planner::dimensions_of(model);
  const bool llama = (model.family == "gpt" || model.family == "llama") && !d.moe && !d.mla &&
                     model.mtp_layers == 0 && model.norm == planner::Norm::kRmsNorm &&
                     model.positions == planner::Positions::kRotary && model.gated_mlp &&
                     model.causal && !model.bias && !model.qk_norm;
  if (llama) return model.qkv_bias ? HuggingFaceModel::kQwen2 : HuggingFaceModel::kLlama;
  throw Error(ExitCode::kUsage, "NQD2072",
              "this model is neither a GPT-2 nor a Llama, so it has no Hugging Face form in nqd",
              "leave the keys of the model section that family gpt or llama sets as they are");
}

std::string_view name_prefix(HuggingFaceModel kind) {
  return kind == HuggingFaceModel::kGpt2 ? "transformer." : "model.";
}

std::vector<HuggingFacePart> hugging_face_parts(const planner::ModelSpec& model,
                                                const planner::TensorSpec& tensor) {
  const HuggingFaceModel kind = hugging_face_model(model);
  const std::span<const Row> rows = rows_of(kind);
  const SplitName name = split(tensor.name);
  const auto row = std::find_if(rows.begin(), rows.end(),
                                [&](const Row& one) { return one.ours == name.module; });
  if (row == rows.end()) throw std::logic_error("no Hugging Face name for " + tensor.name);
  std::string prefix;
  if (!name.layer.empty()) {
    prefix = std::string(name_prefix(kind)) + (kind == HuggingFaceModel::kGpt2 ? "h." : "layers.") +
             name.layer + ".";
  }
  const planner::Dimensions d = planner::dimensions_of(model);
  std::vector<HuggingFacePart> parts;
  std::int64_t next = 0;
  for (const std::string_view module : row->theirs) {
    if (module.empty()) break;
    HuggingFacePart part;
    part.name = prefix + std::string(module) + "." + name.leaf;
    part.row = next;
    part.rows = part_rows(d, module, tensor.shape.front());
    part.transposed = row->transposed && tensor.shape.size() == 2;
    part.shape = tensor.shape;
    part.shape.front() = part.rows;
    if (part.transposed) std::reverse(part.shape.begin(), part.shape.end());
    next += part.rows;
    parts.push_back(std::move(part));
  }
  return parts;
}

}  // namespace nqd::engine
