#include "planner/models/shape.h"

#include <algorithm>
#include <cmath>

#include "planner/models/dimensions.h"
#include "planner/models/families.h"

namespace nqd::planner {
namespace {

double at_least_one(std::int64_t ranks) {
  return static_cast<double>(std::max<std::int64_t>(ranks, 1));
}

}  // namespace

Division division_of(const Config& config) {
  const ParallelSpec& mesh = config.parallel;
  return {mesh.tp,
          mesh.cp,
          mesh.ep,
          mesh.expert_tp,
          mesh.sequence_parallel,
          dimensions_of(config.model).kv_heads};
}

double activation_share(Split split, const Division& division) {
  const double tp = at_least_one(division.tp);
  const double rows = 1 / at_least_one(division.cp);
  switch (split) {
    case Split::kNone:
      return rows;
    case Split::kTensor:
      return rows / tp;
    case Split::kSequence:
      return division.sequence_parallel ? rows / tp : rows;
    case Split::kExpert:
      return division.expert_tp > 0 ? rows * static_cast<double>(division.expert_tp) / tp : rows;
    case Split::kKeyValue: {
      const bool shared = division.kv_heads > 0 && division.kv_heads < division.tp;
      return rows / (shared ? static_cast<double>(division.kv_heads) : tp);
    }
  }
  return rows;
}

double dispatched_elements(const BlockShape& block, const Division& division) {
  return block.all_to_all_elements * activation_share(Split::kSequence, division);
}

double ParameterCounts::dense_of_rank(std::int64_t tp) const {
  const double ranks = at_least_one(tp);
  double elements = replicated + tensor / ranks;
  if (kv > 0) elements += kv / std::min(ranks, kv_heads);
  if (vocabulary > 0) {
    elements += std::ceil(vocabulary_rows / ranks) * (vocabulary / vocabulary_rows);
  }
  return elements;
}

double ParameterCounts::expert_of_rank(std::int64_t ep, std::int64_t expert_tp) const {
  return expert / (at_least_one(ep) * at_least_one(expert_tp));
}

double ParameterCounts::of_rank(std::int64_t tp, std::int64_t ep, std::int64_t expert_tp) const {
  return dense_of_rank(tp) + expert_of_rank(ep, expert_tp > 0 ? expert_tp : tp);
}

std::int64_t layer_count(const ModelShape& shape) {
  std::int64_t layers = 0;
  for (const BlockRun& run : shape.runs) {
    if (run.kind != shape.embedding && run.kind != shape.head && run.kind != shape.mtp) {
      layers += run.count;
    }
  }
  return layers;
}

ModelShape model_shape(const ModelSpec& model, const TrainSpec& train) {
  if (is_transformer(model)) return transformer_shape(model, train);
  if (model.family == "edsr") return edsr_shape(model);
  if (model.family == "unet") return unet_shape(model, train);
  if (model.family == "custom") return custom_shape(model);
  ModelShape shape;
  shape.parameters = model.parameters;
  return shape;
}

SampleFlops forward_flops(const ModelShape& shape) {
  SampleFlops flops;
  for (const BlockRun& run : shape.runs) {
    const BlockShape& block = shape.kinds[static_cast<std::size_t>(run.kind)];
    const auto count = static_cast<double>(run.count);
    double matmul = block.extra_forward_flops;
    for (const MatmulShape& product : block.matmuls) {
      const double one = 2 * product.rows * product.k * product.n * product.count;
      matmul += one;
      if (run.kind == shape.head) flops.head += one;
    }
    flops.matmul += count * matmul;
    const AttentionShape& attention = block.attention;
    flops.attention += count * attention.forward_flops();
    AttentionShape full = attention;
    full.causal = false;
    flops.attention_full += count * full.forward_flops();
  }
  return flops;
}

}  // namespace nqd::planner
