#include <charconv>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "planner/import/importers.h"

namespace nqd::planner {
namespace {

constexpr std::int64_t kGpt2Vocabulary = 50257;  // of GPT2BPETokenizer's files

std::int64_t padded(std::int64_t value, std::int64_t multiple) {
  return (value + multiple - 1) / multiple * multiple;
}

void import_attention(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  a.read("--kv-channels", "model.head_dim");
  const bool grouped = megatron_flag(a, "--group-query-attention");
  if (grouped) {
    if (!a.read("--num-query-groups", "model.kv_heads")) {
      set_default(draft, "model.kv_heads", std::int64_t{1}, "the default of --num-query-groups");
    }
  } else if (a.take("--num-query-groups") != nullptr) {
    draft.warn(a.at("--num-query-groups", "NQD2313",
                    "--num-query-groups has no effect without --group-query-attention"));
  }
  const bool norms = megatron_flag(a, "--qk-layernorm");
  if (!megatron_flag(a, "--multi-latent-attention")) {
    if (norms) a.set("--qk-layernorm", "model.qk_norm", true);
    return;
  }
  a.read("--q-lora-rank", "model.mla.q_lora_rank");
  const auto read = [&](std::string_view key, std::string_view path, std::int64_t fallback) {
    if (!a.has(key)) set_default(draft, path, fallback, "the default of " + std::string(key));
    a.read(key, path);
  };
  read("--kv-lora-rank", "model.mla.kv_lora_rank", 32);
  read("--qk-head-dim", "model.mla.qk_nope_head_dim", 128);
  read("--qk-pos-emb-head-dim", "model.mla.qk_rope_head_dim", 64);
  read("--v-head-dim", "model.mla.v_head_dim", 128);
}

void import_mlp(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  const bool gated = megatron_flag(a, "--swiglu");
  draft.set("model.gated_mlp", gated,
            gated ? a.origin("--swiglu") : Origin{"no --swiglu", nullptr, {}});
  const std::int64_t hidden = draft.integer("model.hidden");
  if (a.read("--ffn-hidden-size", "model.ffn_hidden") || a.has("--ffn-hidden-size") ||
      hidden == 0) {
    return;
  }
  if (gated) {
    set_default(draft, "model.ffn_hidden", hidden * 4 * 2 / 3 / 64 * 64,
                "the default of --ffn-hidden-size with --swiglu: 8/3 · hidden, in steps of 64");
  } else {
    set_default(draft, "model.ffn_hidden", 4 * hidden,
                "the default of --ffn-hidden-size: 4 · hidden");
  }
}

// --use-rope-scaling is Llama 3.1's
// (megatron/core/models/common/embeddings/rotary_pos_embedding.py): all of it is fixed but the
// factor.
void import_rotary(ForeignTable& a) {
  constexpr std::string_view kFactor = "model.rope_scaling.factor";
  a.read("--rotary-base", "model.rope_base");
  if (!megatron_flag(a, "--use-rope-scaling")) return;
  if (a.read("--rope-scaling-factor", kFactor)) return;
  a.derive("--use-rope-scaling", kFactor, 8.0, "the default of --rope-scaling-factor");
}

void import_positions(ForeignTable& a) {
  constexpr std::string_view kType = "--position-embedding-type";
  ImportDraft& draft = a.draft();
  set_default(draft, "model.positions", std::string("learned"),
              "the default of " + std::string(kType));
  if (a.is_text(kType, "rope")) {
    a.set(kType, "model.positions", std::string("rotary"));
  } else if (a.is_text(kType, "none")) {
    a.set(kType, "model.positions", std::string("none"));
  } else if (a.is_text(kType, "learned_absolute")) {
    a.set(kType, "model.positions", std::string("learned"));
  } else if (a.has(kType)) {
    // No rows of an embedding, as with rotary positions.
    a.derive(kType, "model.positions", std::string("rotary"), "the nearest to it");
    a.drop(kType, "counted as rotary positions");
  }
  if (megatron_flag(a, "--use-rotary-position-embeddings")) {
    a.set("--use-rotary-position-embeddings", "model.positions", std::string("rotary"));
  }
  if (megatron_flag(a, "--no-position-embedding") &&
      draft.is("model.positions", std::string("learned"))) {
    a.set("--no-position-embedding", "model.positions", std::string("none"));
  }
  if (draft.is("model.positions", std::string("rotary"))) import_rotary(a);
  const std::optional<std::int64_t> rows = a.integer("--max-position-embeddings", {1, 1 << 24});
  if (!rows || *rows == draft.integer("model.sequence")) return;
  const bool learned = draft.is("model.positions", std::string("learned"));
  a.drop("--max-position-embeddings",
         learned ? "nqd counts as many rows of the position embedding as the sequence has tokens"
                 : "only learned positions have rows");
}

void import_vocabulary(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  const std::int64_t multiple =
      a.integer("--make-vocab-size-divisible-by", {1, 1 << 20}).value_or(128) *
      draft.integer("parallel.tp", 1);
  std::optional<std::int64_t> size = a.integer("--vocab-size", {1, 1 << 24});
  std::string_view key = "--vocab-size";
  std::string rule;
  if (size && a.is_text("--tokenizer-type", "NullTokenizer")) {
    a.take("--tokenizer-type");
    *size += 1;
    rule = "one more of NullTokenizer's own, ";
  }
  if (!size && a.is_text("--tokenizer-type", "GPT2BPETokenizer")) {
    size = kGpt2Vocabulary;
    key = "--tokenizer-type";
    rule = "50257 tokens, ";
  }
  if (!size) {
    a.drop("--make-vocab-size-divisible-by", "the size of the vocabulary is the tokenizer's");
    return;
  }
  const std::int64_t rows = padded(*size, multiple);
  // nqd pads to a multiple of tp by itself.
  const bool by_tp = rows == padded(*size, draft.integer("parallel.tp", 1));
  if (by_tp && rule.empty()) {
    a.set(key, "model.vocab", *size);
  } else {
    a.derive(key, "model.vocab", rows,
             rule + "padded to a multiple of " + std::to_string(multiple));
  }
}

// "[0]*3+[1]*58": one number a layer, as Python would add the lists up. Nothing for other text or
// more layers than a model has.
std::optional<std::vector<int>> layer_pattern(std::string_view text) {
  std::vector<int> pattern;
  const auto skip = [&] {
    while (!text.empty() && (text.front() == ' ' || text.front() == '(' || text.front() == ')')) {
      text.remove_prefix(1);
    }
  };
  const auto number = [&]() -> std::optional<int> {
    int value = 0;
    const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || value < 0) return std::nullopt;
    text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
    return value;
  };
  const auto eat = [&](char byte) {
    skip();
    if (text.empty() || text.front() != byte) return false;
    text.remove_prefix(1);
    return true;
  };
  do {
    if (!eat('[')) return std::nullopt;
    std::vector<int> list;
    do {
      skip();
      const std::optional<int> value = number();
      if (!value) return std::nullopt;
      list.push_back(*value);
    } while (eat(','));
    if (!eat(']')) return std::nullopt;
    std::optional<int> times = 1;
    if (eat('*')) {
      skip();
      times = number();
    }
    if (!times || list.size() * static_cast<std::size_t>(*times) + pattern.size() > 4096) {
      return std::nullopt;
    }
    for (int i = 0; i < *times; ++i) pattern.insert(pattern.end(), list.begin(), list.end());
  } while (eat('+'));
  skip();
  if (!text.empty()) return std::nullopt;
  return pattern;
}

void import_expert_layers(ForeignTable& a) {
  constexpr std::string_view kKey = "--moe-layer-freq";
  if (!a.has(kKey) || a.is_text(kKey, "1")) {
    a.take(kKey);
    return;
  }
  const std::string text = a.text(kKey).value_or("");
  const std::optional<std::vector<int>> pattern = layer_pattern(text);
  std::size_t dense = 0;
  while (pattern && dense < pattern->size() && (*pattern)[dense] == 0) ++dense;
  bool experts_last = pattern.has_value();
  for (std::size_t i = dense; pattern && i < pattern->size(); ++i) {
    experts_last = experts_last && (*pattern)[i] == 1;
  }
  if (experts_last) {
    a.derive(kKey, "model.moe.dense_layers", static_cast<std::int64_t>(dense),
             "the layers before the first with experts");
  } else {
    a.drop(kKey,
           "nqd has experts in all layers behind the first dense ones: the parameters that it "
           "counts are not those of this model");
  }
}

void import_experts(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  if (!a.read("--num-experts", "model.moe.experts")) return;
  if (!a.read("--moe-router-topk", "model.moe.experts_per_token")) {
    set_default(draft, "model.moe.experts_per_token", std::int64_t{2},
                "the default of --moe-router-topk");
  }
  if (!a.read("--moe-ffn-hidden-size", "model.moe.expert_hidden") &&
      draft.has("model.ffn_hidden")) {
    set_default(draft, "model.moe.expert_hidden", draft.integer("model.ffn_hidden"),
                "the default of --moe-ffn-hidden-size: --ffn-hidden-size");
  }
  a.read("--moe-shared-expert-intermediate-size", "model.moe.shared_expert_hidden");
  if (megatron_flag(a, "--moe-shared-expert-gate")) {
    a.set("--moe-shared-expert-gate", "model.moe.shared_gate", true);
  }
  if (megatron_flag(a, "--moe-router-enable-expert-bias")) {
    a.set("--moe-router-enable-expert-bias", "model.moe.router_bias", true);
  }
  a.read("--moe-expert-capacity-factor", "model.moe.capacity_factor");
  import_expert_layers(a);
}

// A family sets defaults alone, and all of them are written: it is the nearest name.
void import_family(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  const bool experts = draft.has("model.moe.experts");
  const bool llama =
      draft.has("model.mla.kv_lora_rank") ||
      (draft.is("model.norm", std::string("rmsnorm")) && draft.is("model.gated_mlp", true) &&
       draft.is("model.positions", std::string("rotary")));
  set_default(draft, "model.family",
              std::string(experts ? "moe"
                          : llama ? "llama"
                                  : "gpt"),
              experts ? "--num-experts is given" : "by the shape of its layers");
}

}  // namespace

void import_megatron_model(ForeignTable& a) {
  ImportDraft& draft = a.draft();
  a.read("--num-layers", "model.layers");
  a.read("--hidden-size", "model.hidden");
  a.read("--num-attention-heads", "model.heads");
  a.read("--seq-length", "model.sequence");
  const bool rms = a.is_text("--normalization", "RMSNorm");
  draft.set("model.norm", std::string(rms ? "rmsnorm" : "layernorm"),
            a.has("--normalization") ? a.origin("--normalization")
                                     : Origin{"the default of --normalization", nullptr, {}});
  if (rms || a.is_text("--normalization", "LayerNorm")) a.take("--normalization");
  a.read("--norm-epsilon", "model.norm_epsilon");
  const auto flag = [&](std::string_view key, std::string_view path, bool given) {
    const bool found = megatron_flag(a, key);
    draft.set(path, found ? given : !given,
              found ? a.origin(key) : Origin{"no " + std::string(key), nullptr, {}});
  };
  flag("--untie-embeddings-and-output-weights", "model.tied_head", false);
  flag("--disable-bias-linear", "model.bias", false);
  if (draft.is("model.bias", false)) {
    flag("--add-qkv-bias", "model.qkv_bias", true);
  } else {
    megatron_flag(a, "--add-qkv-bias");
  }
  import_attention(a);
  import_mlp(a);
  import_positions(a);
  import_vocabulary(a);
  import_experts(a);
  a.read("--mtp-num-layers", "model.mtp_layers");
  import_family(a);
}

}  // namespace nqd::planner
