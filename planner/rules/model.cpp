// What tp and cp divide of a model. That its keys agree with each other is for the loader.
#include <algorithm>
#include <array>
#include <numeric>

#include "planner/config/field.h"
#include "planner/rules/legality.h"
#include "planner/rules/rule.h"

namespace nqd::planner::rules {
namespace {

std::int64_t domain_of(const Config& c) {
  return tp_domain(c.cluster.gpus_per_node, c.cluster.nvlink_domain);
}

// Values of tp that whole heads and the domain allow, and `legal` admits.
template <typename Legal>
std::string legal_tp(const Config& c, Legal legal) {
  std::vector<std::int64_t> values =
      divisors(std::gcd(c.model.heads, domain_of(c)), c.model.heads, c.parallel.tp);
  values.erase(
      std::remove_if(values.begin(), values.end(), [&](std::int64_t tp) { return !legal(tp); }),
      values.end());
  return "legal values of tp here: " + listed(values);
}

// A tp that cuts heads will change, and what else it does not divide with it.
bool heads_whole(const Config& c) {
  return heads_split(c.model.heads, c.parallel.tp) &&
         kv_heads_split(c.model.kv_heads, c.parallel.tp);
}

bool attends(const Config& c) { return is_transformer(c.model) && c.model.heads > 0; }

void check_heads(const Config& c, Diagnostics& out) {
  const std::int64_t heads = c.model.heads;
  const std::int64_t tp = c.parallel.tp;
  if (!is_transformer(c.model) || heads_split(heads, tp)) return;
  out.push_back(
      violation("NQD1204", "parallel.tp",
                remainder({"heads", heads}, {"tp", tp}) + ": every tp rank needs whole heads",
                legal_tp(c, [](std::int64_t) { return true; }), {value_of("model.heads", heads)}));
}

void check_kv_heads(const Config& c, Diagnostics& out) {
  const std::int64_t kv = c.model.kv_heads;
  const std::int64_t tp = c.parallel.tp;
  if (!attends(c) || !heads_split(c.model.heads, tp) || kv_heads_split(kv, tp)) return;
  out.push_back(violation("NQD1225", "parallel.tp",
                          "kv_heads = " + text(kv) +
                              " is neither a multiple nor a divisor of tp = " + text(tp) +
                              ": a rank holds whole key and value heads, or whole ranks "
                              "share one",
                          legal_tp(c, [&](std::int64_t t) { return kv_heads_split(kv, t); }),
                          {value_of("model.kv_heads", kv)}));
}

void check_kv_groups(const Config& c, Diagnostics& out) {
  const std::int64_t heads = c.model.heads;
  const std::int64_t kv = c.model.kv_heads;
  if (!attends(c) || kv == 0 || divides(kv, heads)) return;
  out.push_back(violation("NQD1226", "model.kv_heads",
                          remainder({"heads", heads}, {"kv_heads", kv}) +
                              ": every key and value head serves equally many query heads",
                          "set model.kv_heads to one of " + listed(divisors(heads, heads, kv)),
                          {value_of("model.heads", heads)}));
}

// Numbers of heads of equal size that the keys beside it allow.
std::vector<std::int64_t> legal_heads(const ModelSpec& m) {
  std::vector<std::int64_t> values = divisors(m.hidden, 4096, m.heads);
  const auto illegal = [&](std::int64_t heads) {
    const bool own_kv = m.kv_heads != 0 && m.kv_heads != m.heads;
    const bool odd = m.positions == Positions::kRotary && !divides(2, m.hidden / heads);
    return odd || (own_kv && !divides(m.kv_heads, heads));
  };
  values.erase(std::remove_if(values.begin(), values.end(), illegal), values.end());
  return values;
}

void check_head_size(const Config& c, Diagnostics& out) {
  const std::int64_t hidden = c.model.hidden;
  const std::int64_t heads = c.model.heads;
  if (!attends(c) || c.model.mla.kv_lora_rank > 0 || divides(heads, hidden)) return;
  // A head_dim of its own frees the heads from hidden; hidden / heads is what is derived.
  if (c.model.head_dim != 0 && c.model.head_dim != hidden / heads) return;
  const std::vector<std::int64_t> legal = legal_heads(c.model);
  const std::int64_t step = c.model.positions == Positions::kRotary ? 2 * heads : heads;
  out.push_back(
      violation("NQD1205", "model.heads",
                remainder({"hidden", hidden}, {"heads", heads}) + ": all heads have the same size",
                "set model.hidden to " + nearest_multiples(hidden, step) +
                    (legal.empty() ? "" : ", or model.heads to one of " + listed(legal)),
                {value_of("model.hidden", hidden)}));
}

void check_rotary(const Config& c, Diagnostics& out) {
  const bool latent = c.model.mla.kv_lora_rank > 0;
  const std::string key = latent ? "mla.qk_rope_head_dim" : "head_dim";
  const std::int64_t dim = latent ? c.model.mla.qk_rope_head_dim : c.model.head_dim;
  if (!attends(c) || c.model.positions != Positions::kRotary || divides(2, dim)) return;
  out.push_back(violation(
      "NQD1260", latent ? "model." + key : "model.heads",
      key + " = " + text(dim) + " is odd: rotary positions turn the channels of a head in pairs",
      "set model." + key + " to " + text(dim + 1) +
          (latent ? "" : ", or model.positions to learned"),
      {value_of("model." + key, dim)}));
}

// A key that the model does not read would be ignored.
void check_rope(const Config& c, Diagnostics& out) {
  const ModelSpec& m = c.model;
  const RopeScaling& scaling = m.rope_scaling;
  if (!is_transformer(m)) return;
  if (m.positions != Positions::kRotary) {
    const bool base = m.rope_base != ModelSpec{}.rope_base;
    if (!base && scaling == RopeScaling{}) return;
    out.push_back(violation(
        "NQD1266", base ? "model.rope_base" : "model.rope_scaling",
        "the keys of rotary positions are given, but positions = " + std::string(name(m.positions)),
        "remove them, or set model.positions to rotary",
        {value_of("model.positions", std::string(name(m.positions)))}));
    return;
  }
  if (scaling.low_freq_factor < scaling.high_freq_factor) return;
  out.push_back(violation(
      "NQD1267", "model.rope_scaling.high_freq_factor",
      "high_freq_factor = " + number_text(scaling.high_freq_factor) +
          " is not above low_freq_factor = " + number_text(scaling.low_freq_factor),
      "set model.rope_scaling.high_freq_factor above it: 4 beside 1 in Llama 3.1",
      {value_of("model.rope_scaling.low_freq_factor", number_text(scaling.low_freq_factor))}));
}

void check_width(const Config& c, Diagnostics& out) {
  const std::int64_t width = c.model.ffn_hidden;
  const std::int64_t tp = c.parallel.tp;
  if (!is_transformer(c.model) || !heads_whole(c) || width_splits(width, tp)) return;
  out.push_back(violation("NQD1228", "model.ffn_hidden",
                          remainder({"ffn_hidden", width}, {"tp", tp}) +
                              ": every tp rank holds equally many columns of the MLP",
                          "set model.ffn_hidden to " + nearest_multiples(width, tp),
                          {value_of("parallel.tp", tp)}));
}

void check_vocab(const Config& c, Diagnostics& out) {
  const std::int64_t vocab = c.model.vocab;
  const std::int64_t tp = c.parallel.tp;
  const bool legal_tp = heads_whole(c) && divides(tp, domain_of(c));
  if (!is_transformer(c.model) || !legal_tp || divides(tp, vocab)) return;
  const std::int64_t padded = (vocab / tp + 1) * tp;
  out.push_back(warning(violation("NQD1214", "model.vocab",
                                  "vocab = " + text(vocab) + " is padded to " + text(padded) +
                                      ", a multiple of tp = " + text(tp),
                                  "set model.vocab to " + text(padded) + " to say so yourself",
                                  {value_of("parallel.tp", tp)})));
}

// A picture's tokens are its patches and the class token: their number is no key.
std::string context_hint(const Config& c, std::int64_t chunks) {
  if (c.model.family == "vit") return "set parallel.cp to 1";
  const std::int64_t parts = c.parallel.sequence_parallel ? c.parallel.cp * c.parallel.tp : 1;
  return "set model.sequence to " + nearest_multiples(c.model.sequence, std::lcm(chunks, parts));
}

void check_context(const Config& c, Diagnostics& out) {
  const std::int64_t sequence = c.model.sequence;
  const std::int64_t cp = c.parallel.cp;
  if (!is_transformer(c.model) || context_splits(sequence, cp, c.model.causal)) return;
  const std::int64_t chunks = context_chunks(cp, c.model.causal);
  const std::string divisor = c.model.causal ? "(2·cp)" : "cp";
  out.push_back(violation(
      "NQD1231", "model.sequence",
      "sequence % " + divisor + " = " + text(sequence) + " % " + text(chunks) + " = " +
          text(sequence % chunks) +
          (c.model.causal ? ": with causal attention a cp rank takes one chunk from the front and "
                            "one from the back, for equal work"
                          : ": cp ranks hold equal parts of a sequence"),
      context_hint(c, chunks), {value_of("parallel.cp", cp)}));
}

void check_sequence(const Config& c, Diagnostics& out) {
  const std::int64_t sequence = c.model.sequence;
  const ParallelSpec& p = c.parallel;
  if (!is_transformer(c.model) || !context_splits(sequence, p.cp, c.model.causal) ||
      sequence_splits(sequence, p.cp, p.tp, p.sequence_parallel)) {
    return;
  }
  const std::string parts = p.cp > 1 ? "(cp·tp)" : "tp";
  const std::int64_t step = p.cp * p.tp;
  out.push_back(violation(
      "NQD1213", "model.sequence",
      "sequence % " + parts + " = " + text(sequence) + " % " + text(step) + " = " +
          text(sequence % step) + ": sequence_parallel cuts " +
          (p.cp > 1 ? "the part of a cp rank" : "it") + " into tp parts",
      "set model.sequence to " +
          nearest_multiples(sequence, std::lcm(step, context_chunks(p.cp, c.model.causal))),
      {value_of("parallel.tp", p.tp), value_of("parallel.cp", p.cp),
       value_of("parallel.sequence_parallel", std::string("true"))}));
}

void check_latent_heads(const Config& c, Diagnostics& out) {
  const ModelSpec& m = c.model;
  if (m.mla.kv_lora_rank == 0 || m.kv_heads == 0 || m.kv_heads == m.heads) return;
  out.push_back(violation(
      "NQD1251", "model.kv_heads",
      "latent attention expands keys and values for every head, but kv_heads = " +
          text(m.kv_heads) + " and heads = " + text(m.heads),
      "remove model.kv_heads",
      {value_of("model.heads", m.heads), value_of("model.mla.kv_lora_rank", m.mla.kv_lora_rank)}));
}

void check_attention_sizes(const Config& c, Diagnostics& out) {
  const ImageSpec& image = c.model.image;
  if (c.model.family != "unet" || image.multipliers.empty()) return;
  std::vector<std::int64_t> sizes;
  for (std::size_t level = 0; level < image.multipliers.size() && level < 40; ++level) {
    sizes.push_back(image.size >> level);
  }
  for (const std::int64_t at : image.attention_at) {
    if (std::find(sizes.begin(), sizes.end(), at) != sizes.end()) continue;
    out.push_back(violation(
        "NQD1257", "model.image.attention_at",
        "attention_at names size " + text(at) + ", but the levels have the sizes " + listed(sizes),
        "name sizes of levels, or [] for no attention",
        {value_of("model.image.size", image.size)}));
    return;
  }
}

void check_fp8_sides(const Config& c, Diagnostics& out) {
  if (!is_transformer(c.model)) return;
  const std::int64_t tp = c.parallel.tp;
  const auto judge = [&](const std::string& key, std::int64_t side) {
    if (!divides(tp, side) || fp8_takes(c.train.precision, side / tp)) return;
    out.push_back(violation("NQD1255", "model." + key,
                            key + "/tp = " + text(side) + "/" + text(tp) + " = " + text(side / tp) +
                                " is no multiple of 16, which 8-bit matrix products need",
                            "set model." + key + " to " +
                                nearest_multiples(side, tp * kFp8Multiple) +
                                ", or train.precision to bfloat16",
                            {value_of("parallel.tp", tp),
                             value_of("train.precision", std::string(name(c.train.precision)))}));
  };
  judge("hidden", c.model.hidden);
  judge("ffn_hidden", c.model.ffn_hidden);
}

constexpr std::array<Check, 13> kChecks = {
    check_heads,        check_head_size,       check_kv_heads,  check_kv_groups, check_rotary,
    check_rope,         check_width,           check_context,   check_sequence,  check_vocab,
    check_latent_heads, check_attention_sizes, check_fp8_sides,
};

}  // namespace

std::span<const Check> model_checks() { return kChecks; }

}  // namespace nqd::planner::rules
