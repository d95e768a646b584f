#include "planner/import/published/model.h"

#include <algorithm>
#include <array>

namespace nqd::planner::published {
namespace {

// What rows leave out about models whose shape is published elsewhere: the config.json of the named
// repositories on huggingface.co, and NeMo's gpt3/5b recipe.
struct KnownShape {
  std::string_view name;  // in the model's name, lower case without separators
  std::int64_t layers = 0, hidden = 0, heads = 0, kv_heads = 0, ffn = 0, vocab = 0;
  bool gated = true;
  MoeSpec moe{};
  MlaSpec mla{};
  std::int64_t mtp_layers = 0;
  std::int64_t head_dim = 0;
};
constexpr MlaSpec kDeepSeekMla{1536, 512, 128, 64, 128};
const std::array kKnownShapes = {
    // deepseek-ai/DeepSeek-V3
    KnownShape{"deepseekv3",
               61,
               7168,
               128,
               128,
               18432,
               129280,
               true,
               {256, 8, 2048, 2048, 3, 0},
               kDeepSeekMla,
               1},
    // moonshotai/Kimi-K2-Instruct
    KnownShape{"kimik2",
               61,
               7168,
               64,
               64,
               18432,
               163840,
               true,
               {384, 8, 2048, 2048, 1, 0},
               kDeepSeekMla,
               0},
    // Qwen/Qwen3-30B-A3B, Qwen/Qwen3-235B-A22B: heads wider than hidden ÷ heads
    KnownShape{.name = "qwen330ba3b",
               .layers = 48,
               .hidden = 2048,
               .heads = 32,
               .kv_heads = 4,
               .ffn = 6144,
               .vocab = 151936,
               .moe = {128, 8, 768, 0, 0, 0},
               .head_dim = 128},
    KnownShape{.name = "qwen3235ba22b",
               .layers = 94,
               .hidden = 4096,
               .heads = 64,
               .kv_heads = 4,
               .ffn = 12288,
               .vocab = 151936,
               .moe = {128, 8, 1536, 0, 0, 0},
               .head_dim = 128},
    KnownShape{"gpt35b", 24, 4096, 32, 32, 16384, 51200, false, {}, {}, 0},
};

const KnownShape* known_shape(const std::string& model) {
  std::string name;
  std::copy_if(model.begin(), model.end(), std::back_inserter(name),
               [](unsigned char letter) { return std::isalnum(letter) != 0; });
  const auto found =
      std::find_if(kKnownShapes.begin(), kKnownShapes.end(),
                   [&](const KnownShape& shape) { return contains(name, shape.name); });
  return found == kKnownShapes.end() ? nullptr : &*found;
}

// A size of `arch`, which some rows spread over their own level.
std::int64_t size_of(const Fields& row, const std::string& key, std::int64_t otherwise) {
  if (const std::optional<std::int64_t> size = row.count("arch." + key)) return *size;
  return row.count_or(key, otherwise);
}

void read_experts(const Fields& row, const KnownShape& known, const std::string& name,
                  ModelSpec& model) {
  MoeSpec& moe = model.moe;
  moe.experts = size_of(row, "experts", known.moe.experts);
  if (moe.experts == 0) return;
  model.family = "moe";
  moe.experts_per_token =
      size_of(row, "topk", std::max<std::int64_t>(1, known.moe.experts_per_token));
  moe.expert_hidden = size_of(
      row, "moe_ffn", known.moe.expert_hidden > 0 ? known.moe.expert_hidden : model.ffn_hidden);
  const std::int64_t shared = size_of(row, "shared_experts", 0);
  moe.shared_expert_hidden =
      shared > 0 ? shared * moe.expert_hidden : known.moe.shared_expert_hidden;
  moe.dense_layers = size_of(row, "dense_layers", known.moe.dense_layers);
  // "Token drop" recipes give each expert its even share.
  moe.capacity_factor = contains(name, "tokendrop") ? 1 : 0;
  model.mtp_layers = contains(name, "w/o mtp") ? 0 : known.mtp_layers;
}

// Row conventions: gated models are of the Llama kind; ungated ones with grouped queries are of
// the Nemotron kind (no biases, rotary, untied); the others are of the GPT kind, whose head is tied
// unless the note says otherwise.
void set_kind(const Fields& row, ModelSpec& model) {
  const bool modern = model.gated_mlp || model.kv_heads < model.heads;
  if (!modern) {
    model.family = "gpt";
    model.tied_head = !contains(row.lower("note"), "untied");
    return;
  }
  if (model.family != "moe") model.family = "llama";
  model.bias = false;
  model.qkv_bias = false;
  model.norm = model.gated_mlp ? Norm::kRmsNorm : Norm::kLayerNorm;
  model.positions = Positions::kRotary;
  model.tied_head = false;
}

}  // namespace

ModelSpec model_of(Fields& row, std::string& problem) {
  const std::string name = row.lower("model");
  const KnownShape* found = known_shape(name);
  const KnownShape known = found != nullptr ? *found : KnownShape{};
  ModelSpec model;
  model.layers = size_of(row, "layers", known.layers);
  model.hidden = size_of(row, "hidden", known.hidden);
  model.heads = size_of(row, "heads", known.heads);
  if (model.layers == 0 || model.hidden == 0 || model.heads == 0) {
    problem = "the row gives no layers, hidden size or heads of its model";
    return model;
  }
  model.gated_mlp = row.flag("arch.gated_mlp").value_or(found != nullptr && known.gated);
  model.kv_heads = size_of(row, "kv_heads", known.kv_heads > 0 ? known.kv_heads : model.heads);
  model.head_dim = size_of(
      row, "head_dim",
      known.head_dim > 0 ? known.head_dim : std::max<std::int64_t>(1, model.hidden / model.heads));
  model.ffn_hidden = size_of(row, "ffn", known.ffn > 0 ? known.ffn : 4 * model.hidden);
  model.vocab = size_of(row, "vocab", known.vocab);
  if (model.vocab == 0) {
    // GPT-2's 50,257 tokens padded to a multiple of 128, Megatron's default.
    model.vocab = 50304;
    row.assumed.emplace_back("vocab 50304");
  }
  if (row.flag("arch.mla").value_or(false) || known.mla.kv_lora_rank > 0) {
    if (known.mla.kv_lora_rank == 0) {
      problem = "latent attention without its ranks";
      return model;
    }
    model.mla = known.mla;
    model.head_dim = known.mla.v_head_dim;
  }
  read_experts(row, known, name, model);
  if (model.heads % model.kv_heads != 0) {
    problem = std::to_string(model.heads) + " heads are no multiple of " +
              std::to_string(model.kv_heads) + " key-value heads";
  } else if (model.moe.experts > 0 && model.moe.experts_per_token > model.moe.experts) {
    problem = std::to_string(model.moe.experts_per_token) + " experts a token of " +
              std::to_string(model.moe.experts);
  }
  set_kind(row, model);
  return model;
}

}  // namespace nqd::planner::published
