#include "planner/mesh/stages.h"

#include <algorithm>

#include "planner/mesh/fabric.h"
#include "planner/mesh/layer_split.h"
#include "planner/models/dimensions.h"
#include "planner/plan/pipeline.h"

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
      return std::max<std::int64_t>(mesh.ep, 1) * expert_tp_of(mesh, tp);
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

// Calls use(chunk's stage, first layer, layers) for every chunk in order.
template <typename Use>
void for_each_chunk(const ScheduleSpec& spec, std::span<const std::int64_t> split,
                    std::int64_t layers, Use use) {
  std::int64_t first = 0;
  for (std::int64_t chunk = 0; chunk < chunk_count(spec); ++chunk) {
    const auto i = static_cast<std::size_t>(chunk);
    const std::int64_t count = split.empty() ? layers_of_chunk(layers, chunk_count(spec), chunk)
                               : i < split.size() ? split[i]
                                                  : 0;
    use(stage_of_chunk(spec, chunk), first, count);
    first += count;
  }
}

ScheduleSpec spec_of(const Config& config) {
  ScheduleSpec spec = schedule_spec(config);
  spec.stages = std::max<std::int64_t>(spec.stages, 1);
  // A split says how many chunks there are, also where the schedule does not interleave them.
  const auto chunks = static_cast<std::int64_t>(config.parallel.pipeline_split.size());
  if (chunks > chunk_count(spec)) spec.virtual_stages = chunks / spec.stages;
  return spec;
}

bool embeds_again(const ModelSpec& model) { return model.tied_head || model.mtp_layers > 0; }

// The stage that holds a unit: of layers as the chunks say, embeddings and head at the ends.
std::vector<std::int64_t> stages_of_units(const Config& config, const ScheduleSpec& spec) {
  const ModelSpec& model = config.model;
  std::vector<std::int64_t> stages(static_cast<std::size_t>(model.layers + model.mtp_layers + 2),
                                   stage_of_chunk(spec, chunk_count(spec) - 1));
  stages.front() = 0;
  for_each_chunk(spec, config.parallel.pipeline_split, model.layers,
                 [&](std::int64_t stage, std::int64_t first, std::int64_t count) {
                   const std::int64_t end = std::min(first + count, model.layers);
                   for (std::int64_t layer = first; layer < end; ++layer) {
                     stages[static_cast<std::size_t>(layer + 1)] = stage;
                   }
                 });
  return stages;
}

void fill_tensors(const Config& config, const ScheduleSpec& spec, std::vector<StageLayout>& out) {
  const std::vector<TensorSpec> all = parameters(config.model);
  const std::vector<std::int64_t> stages = stages_of_units(config, spec);
  for (const TensorSpec& tensor : all) {
    StageLayout& stage =
        out[static_cast<std::size_t>(stages[static_cast<std::size_t>(tensor.unit)])];
    append(stage, rank_part(config, tensor), tensor.unit);
  }
  StageLayout& last = out[static_cast<std::size_t>(stages.back())];
  if (last.first || all.front().split != TensorSplit::kVocabulary || !embeds_again(config.model)) {
    return;
  }
  TensorSpec copy = rank_part(config, all.front());
  copy.name = config.model.tied_head ? "head.weight" : "mtp.embedding.token";
  append(last, std::move(copy), last.tensors.back().unit);
}

}  // namespace

StageShare stage_share(const ScheduleSpec& spec, std::span<const std::int64_t> split,
                       std::int64_t dense, std::int64_t moe, std::int64_t stage) {
  StageShare share;
  for_each_chunk(spec, split, dense + moe,
                 [&](std::int64_t holder, std::int64_t first, std::int64_t count) {
                   if (holder != stage) return;
                   const std::int64_t ordinary = std::clamp<std::int64_t>(dense - first, 0, count);
                   share.dense += ordinary;
                   share.moe += count - ordinary;
                 });
  share.first = stage == 0;
  share.last = stage == stage_of_chunk(spec, chunk_count(spec) - 1);
  return share;
}

std::vector<ChunkLayers> chunk_layers(const Config& config) {
  std::vector<ChunkLayers> chunks;
  for_each_chunk(spec_of(config), config.parallel.pipeline_split, config.model.layers,
                 [&](std::int64_t stage, std::int64_t first, std::int64_t count) {
                   chunks.push_back({stage, first, count});
                 });
  return chunks;
}

std::int64_t layers_of_stage(const Config& config, std::int64_t stage) {
  return stage_share(spec_of(config), config.parallel.pipeline_split, config.model.layers, 0, stage)
      .layers();
}

std::vector<StageLayout> stage_layouts(const Config& config) {
  const ScheduleSpec spec = spec_of(config);
  std::vector<StageLayout> out(static_cast<std::size_t>(spec.stages));
  for (std::int64_t i = 0; i < spec.stages; ++i) {
    StageLayout& stage = out[static_cast<std::size_t>(i)];
    const StageShare share =
        stage_share(spec, config.parallel.pipeline_split, config.model.layers, 0, i);
    stage.stage = i;
    stage.layers = share.layers();
    stage.first = share.first;
    stage.last = share.last;
    if (!is_transformer(config.model)) {
      stage.parameters = static_cast<double>(parameter_count(config.model)) /
                         static_cast<double>(config.parallel.tp * spec.stages);
    }
  }
  if (is_transformer(config.model)) fill_tensors(config, spec, out);
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
