#include "planner/stages.h"

#include <algorithm>

#include "planner/models/dimensions.h"

namespace nqd::planner {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Into how many parts a tensor is divided.
std::int64_t parts_of(const Config& config, TensorSplit split) {
  const ParallelSpec& mesh = config.parallel;
  const std::int64_t tp = std::max<std::int64_t>(mesh.tp, 1);
  switch (split) {
    case TensorSplit::kReplicated:
      return 1;
    case TensorSplit::kTensor:
    case TensorSplit::kVocabulary:
      return tp;
    case TensorSplit::kKeyValue:
      return std::min(tp, dimensions_of(config.model).kv_heads);
    case TensorSplit::kExpert:
      return std::max<std::int64_t>(mesh.ep, 1) * (mesh.expert_tp > 0 ? mesh.expert_tp : tp);
  }
  return 1;
}

// The part of a tensor that one rank holds. Only the element count matters to a budget, so that a
// split product is recorded flat.
TensorSpec rank_part(const Config& config, TensorSpec tensor) {
  const std::int64_t parts = parts_of(config, tensor.split);
  if (parts <= 1) return tensor;
  if (tensor.split == TensorSplit::kVocabulary) {
    tensor.shape[0] = ceil_div(tensor.shape[0], parts);
  } else {
    tensor.shape = {ceil_div(tensor.elements(), parts)};
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
  if (tensor.unit > layers) return stage.last;  // multi-token prediction, final norm, head
  const std::int64_t layer = tensor.unit - 1;
  return layer >= first_layer && layer < first_layer + stage.layers;
}

void fill_tensors(const Config& config, const std::vector<TensorSpec>& all,
                  std::int64_t first_layer, StageLayout& stage) {
  for (const TensorSpec& tensor : all) {
    if (!on_stage(stage, first_layer, tensor, config.model.layers)) continue;
    append(stage, rank_part(config, tensor), tensor.unit);
  }
  // Multi-token prediction embeds tokens on the last stage.
  const bool copies = config.model.tied_head || config.model.mtp_layers > 0;
  if (stage.last && !stage.first && all.front().split == TensorSplit::kVocabulary && copies) {
    TensorSpec copy = rank_part(config, all.front());
    copy.name = config.model.tied_head ? "head.weight" : "mtp.embedding.token";
    append(stage, std::move(copy), stage.tensors.back().unit);
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
      stage.parameters = static_cast<double>(parameter_count(config.model)) /
                         static_cast<double>(config.parallel.tp * stages);
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
