#include "planner/import/published/measurement.h"

#include <array>

#include "base/units.h"
#include "planner/models/shape.h"

namespace nqd::planner::published {
namespace {

// FLOPs of a step as the authors of a TFLOP/s figure counted them.
struct Convention {
  enum class Kind {
    kModelFull,      // forward and backward, all attention scores
    kModelCausal,    // … half of the scores
    kRecomputation,  // kModelFull and one more forward of the layers
  } kind;
  std::string text;
};

Convention convention_of(Fields& row, const Platform& platform, const Config& config) {
  const std::string given = row.lower("flops_convention");
  const bool recomputed = config.train.recompute == Recompute::kFull;
  if (contains(given, "96*") || contains(given, "hfu") || contains(given, "recompute")) {
    return {Convention::Kind::kRecomputation, "96·B·s·L·h²·(1 + s/6h + V/16Lh)"};
  }
  if (contains(given, "causal")) {
    return {Convention::Kind::kModelCausal, "causal model FLOPs"};
  }
  if (given.empty() && recomputed && platform.traits->counts_recomputation) {
    return {Convention::Kind::kRecomputation, "96·B·s·L·h²·(1 + s/6h + V/16Lh)"};
  }
  // Megatron-Bridge counts half of the scores, NeMo and Megatron-LM before it all of them.
  if (platform.traits->counts_causal) {
    return {Convention::Kind::kModelCausal, "causal model FLOPs"};
  }
  if (given.empty()) row.assumed.emplace_back("FLOPs with all attention scores");
  return {Convention::Kind::kModelFull, "model FLOPs with all attention scores"};
}

// Of one sequence: 12·L·h²·(1 + g/a) + 12·L·h·s (half of it when causal) + (18 gated | 12)·L·f·h +
// 6·V·h a token (NVIDIA dgxc-benchmarking; Narayanan et al. 2021, eq. 3).
double dense_flops(const ModelSpec& model, Convention::Kind kind) {
  const auto layers = static_cast<double>(model.layers);
  const auto hidden = static_cast<double>(model.hidden);
  const auto sequence = static_cast<double>(model.sequence);
  const double width = static_cast<double>(model.heads * model.head_dim);
  const double groups = static_cast<double>(model.kv_heads) / static_cast<double>(model.heads);
  const double ffn = static_cast<double>(model.ffn_hidden) * (model.gated_mlp ? 18 : 12);
  const double scores = 12 * width * sequence * (kind == Convention::Kind::kModelCausal ? 0.5 : 1);
  const double layer = 12 * hidden * width * (1 + groups) + scores + ffn * hidden;
  const double again = kind == Convention::Kind::kRecomputation ? 4.0 / 3 : 1;
  return sequence * (layers * layer * again + 6 * static_cast<double>(model.vocab) * hidden);
}

// Of one sequence of a model with experts: the products that a token enters, its share of experts
// alone, and the scores.
double expert_flops(const ModelSpec& model, const TrainSpec& train, Convention::Kind kind) {
  const SampleFlops forward = forward_flops(model_shape(model, train));
  const double scores =
      kind == Convention::Kind::kModelCausal ? forward.attention : forward.attention_full;
  const double layers = forward.matmul - forward.head + scores;
  return 3 * (layers + forward.head) + (kind == Convention::Kind::kRecomputation ? layers : 0);
}

}  // namespace

std::optional<Measurement> step_time(Fields& row, const Platform& platform, const ModelSpec& model,
                                     const Config& config) {
  if (const auto printed = row.positive("step_time_s")) return Measurement{*printed, ""};
  if (const auto printed = row.positive("step_time_ms")) return Measurement{*printed / 1e3, ""};
  const auto devices = static_cast<double>(config.parallel.ranks());
  const auto sequences = static_cast<double>(config.train.global_batch_size);
  const double tokens = sequences * static_cast<double>(config.model.sequence);
  if (const auto rate = row.positive("tokens_per_s_per_gpu")) {
    return Measurement{tokens / (*rate * devices), "gbs·seq ÷ (tokens/s a device · devices)"};
  }
  if (const auto rate = row.positive("tokens_per_s")) {
    return Measurement{tokens / *rate, "gbs·seq ÷ tokens/s"};
  }
  if (const auto rate = row.positive("samples_per_s_per_gpu")) {
    return Measurement{sequences / (*rate * devices), "gbs ÷ (samples/s a device · devices)"};
  }
  if (const auto rate = row.positive("samples_per_s")) {
    return Measurement{sequences / *rate, "gbs ÷ samples/s"};
  }
  if (const auto rate = row.positive("tflops_per_gpu"); rate) {
    const Convention convention = convention_of(row, platform, config);
    const double flops =
        sequences * (model.moe.experts > 0 ? expert_flops(model, config.train, convention.kind)
                                           : dense_flops(model, convention.kind));
    return Measurement{flops / (*rate * 1e12 * devices),
                       convention.text + " ÷ (TFLOP/s a device · devices)"};
  }
  return std::nullopt;
}

std::optional<PeakMemory> peak_memory(const Fields& row) {
  struct Unit {
    std::string_view suffix;
    double bytes;
  };
  constexpr std::array kUnits = {Unit{"_gib", kGiB}, Unit{"_gb", kGB}, Unit{"_mib", kGiB / 1024},
                                 Unit{"_mb", kGB / 1000}, Unit{"_bytes", 1}};
  // "peak_mem_gb", "measured_peak_gib", "peak_allocated_mib", …; what another tool predicted is no
  // measurement.
  for (const auto& [key, value] : row.all()) {
    const std::string_view path = key;
    const bool measured = contains(path, "measured") || contains(path, "peak") ||
                          contains(path, "max_mem") || contains(path, "allocated") ||
                          contains(path, "reserved");
    const bool predicted = contains(path, "estim") || contains(path, "predict") ||
                           contains(path, "theor") || contains(path, "calc") ||
                           contains(path, "error") || contains(path, "raw.");
    if (!measured || predicted) continue;
    for (const Unit& unit : kUnits) {
      const std::size_t at = path.find(unit.suffix);
      const std::size_t end = at + unit.suffix.size();
      if (at == std::string_view::npos || (end < path.size() && path[end] != '_')) continue;
      const auto amount = row.positive(path);
      if (!amount)
        return PeakMemory{{}, key, key + " is " + row.text(key) + ", which is no positive number"};
      return PeakMemory{{*amount * unit.bytes, ""}, key, ""};
    }
  }
  return std::nullopt;
}

MemoryKind memory_kind(const Fields& row, const std::string& field, const Platform& platform,
                       const std::string& description) {
  for (const std::string& account : {field, row.lower("note"), lower_case(description)}) {
    if (contains(account, "nvidia-smi")) return MemoryKind::kDevice;
    if (contains(account, "reserved")) return MemoryKind::kReserved;
    if (contains(account, "allocated")) return MemoryKind::kAllocated;
  }
  return platform.stack.starts_with("torchtitan") ? MemoryKind::kReserved : MemoryKind::kAllocated;
}

}  // namespace nqd::planner::published
