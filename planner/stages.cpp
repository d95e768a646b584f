#include "planner/stages.h"

#include <algorithm>

namespace nqd::planner {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

bool has_vocabulary_rows(const TensorSpec& tensor) {
  return tensor.name == "embedding.token" || tensor.name == "head.weight";
}

// The part of a tensor that one of `tp` ranks holds. Only the element count matters to a budget, so
// that a split product is recorded flat.
TensorSpec tp_part(TensorSpec tensor, std::int64_t tp) {
  if (tp <= 1 || !tensor.split_tp) return tensor;
  if (has_vocabulary_rows(tensor)) {
    tensor.shape[0] = ceil_div(tensor.shape[0], tp);
  } else {
    tensor.shape = {ceil_div(tensor.elements(), tp)};
  }
  return tensor;
}

void append(StageLayout& stage, TensorSpec tensor, std::int64_t unit) {
  if (stage.tensors.empty() || stage.tensors.back().unit != unit) stage.units.push_back(0);
  tensor.unit = unit;
  const auto elements = static_cast<double>(tensor.elements());
  stage.units.back() += elements;
  stage.parameters += elements;
  stage.tensors.push_back(std::move(tensor));
}

bool on_stage(const StageLayout& stage, std::int64_t first_layer, const TensorSpec& tensor,
              std::int64_t layers) {
  if (tensor.unit == 0) return stage.first;
  if (tensor.unit > layers) return stage.last;
  const std::int64_t layer = tensor.unit - 1;
  return layer >= first_layer && layer < first_layer + stage.layers;
}

void fill_tensors(const Config& config, const std::vector<TensorSpec>& all,
                  std::int64_t first_layer, StageLayout& stage) {
  for (const TensorSpec& tensor : all) {
    if (!on_stage(stage, first_layer, tensor, config.model.layers)) continue;
    append(stage, tp_part(tensor, config.parallel.tp), tensor.unit);
  }
  if (stage.last && !stage.first && config.model.tied_head) {
    TensorSpec copy = tp_part(all.front(), config.parallel.tp);
    copy.name = "head.weight";
    append(stage, std::move(copy), config.model.layers + 1);
  }
}

}  // namespace

std::int64_t layers_of_stage(const Config& config, std::int64_t stage) {
  const std::vector<std::int64_t>& split = config.parallel.pipeline_split;
  const std::int64_t stages = std::max<std::int64_t>(config.parallel.pp, 1);
  if (split.empty()) {
    return config.model.layers / stages + (stage < config.model.layers % stages ? 1 : 0);
  }
  std::int64_t layers = 0;
  for (auto i = static_cast<std::size_t>(stage); i < split.size();
       i += static_cast<std::size_t>(stages)) {
    layers += split[i];
  }
  return layers;
}

std::vector<StageLayout> stage_layouts(const Config& config) {
  const std::int64_t stages = std::max<std::int64_t>(config.parallel.pp, 1);
  const std::vector<TensorSpec> all = parameters(config.model);
  std::vector<StageLayout> out;
  std::int64_t first_layer = 0;
  for (std::int64_t i = 0; i < stages; ++i) {
    StageLayout stage;
    stage.stage = i;
    stage.layers = layers_of_stage(config, i);
    stage.first = i == 0;
    stage.last = i + 1 == stages;
    if (all.empty()) {
      stage.parameters = config.model.parameters / static_cast<double>(config.parallel.tp * stages);
    } else {
      fill_tensors(config, all, first_layer, stage);
    }
    first_layer += stage.layers;
    out.push_back(std::move(stage));
  }
  return out;
}

std::int64_t weight_bytes(const TrainSpec& train) {
  return train.precision == Precision::kFloat32 ? 4 : 2;
}

std::int64_t gradient_bytes(const TrainSpec& train) {
  const bool full =
      train.precision == Precision::kFloat32 || train.gradient_precision == Precision::kFloat32;
  return full ? 4 : 2;
}

}  // namespace nqd::planner
