#include "planner/layout/rank_units.h"

#include <algorithm>
#include <utility>

#include "planner/mesh/stages.h"
#include "planner/models/dimensions.h"

namespace nqd::planner {
namespace {

std::int64_t ceil_div(std::int64_t a, std::int64_t b) { return (a + b - 1) / b; }

// Cuts the tensors of one tp rank.
class RankCutter {
 public:
  RankCutter(const Config& config, std::int64_t tp_rank)
      : tp_(config.parallel.tp),
        rank_(tp_rank),
        d_(dimensions_of(config.model)),
        vocabulary_rows_(planner::vocabulary_rows(config)) {}

  LocalTensor cut(const TensorSpec& full) const {
    LocalTensor local;
    local.full = full;
    local.shape = full.shape;
    local.replicated = tp_ == 1 || full.split == TensorSplit::kReplicated;
    if (local.replicated) {
      local.pieces = {{0, 0, full.elements()}};
    } else if (full.split == TensorSplit::kVocabulary) {
      cut_vocabulary(local);
    } else if (full.name.ends_with("proj.weight")) {
      cut_columns(local);
    } else {
      cut_rows(local);
    }
    return local;
  }

 private:
  void cut_vocabulary(LocalTensor& local) const {
    const std::int64_t rows = local.full.shape[0];
    const std::int64_t width = local.full.elements() / rows;
    const std::int64_t begin = std::min(rank_ * vocabulary_rows_, rows);
    const std::int64_t end = std::min(begin + vocabulary_rows_, rows);
    local.shape[0] = vocabulary_rows_;
    if (end > begin) local.pieces = {{begin * width, 0, (end - begin) * width}};
  }

  // A part of every row.
  void cut_columns(LocalTensor& local) const {
    const std::int64_t rows = local.full.shape[0];
    const std::int64_t width = local.full.shape[1];
    const std::int64_t part = width / tp_;
    local.shape[1] = part;
    for (std::int64_t row = 0; row < rows; ++row) {
      local.pieces.push_back({row * width + rank_ * part, row * part, part});
    }
  }

  // A part of the rows of every stacked block; a bias is a matrix of one column.
  void cut_rows(LocalTensor& local) const {
    const std::int64_t width = local.full.elements() / local.full.shape[0];
    std::int64_t block_begin = 0;
    std::int64_t rows = 0;
    for (const std::int64_t block : stacked_blocks(local.full)) {
      const std::int64_t part = block / tp_;
      local.pieces.push_back({(block_begin + rank_ * part) * width, rows * width, part * width});
      block_begin += block;
      rows += part;
    }
    local.shape[0] = rows;
  }

  // Rows of the blocks that a column-parallel tensor stacks, in order.
  std::vector<std::int64_t> stacked_blocks(const TensorSpec& full) const {
    if (full.name.find(".attention.qkv.") != std::string::npos) {
      return {d_.queries, d_.keys, d_.values};
    }
    if (full.name.find(".attention.kv.") != std::string::npos) return {d_.keys, d_.values};
    if (full.name.find(".mlp.fc.") != std::string::npos) {
      return std::vector<std::int64_t>(static_cast<std::size_t>(d_.gates), d_.ffn);
    }
    return {full.shape[0]};
  }

  std::int64_t tp_;
  std::int64_t rank_;
  Dimensions d_;
  std::int64_t vocabulary_rows_;
};

// Which unit a tensor is of: role and name; "layers.3" of "layers.3.norm1.weight".
LocalUnit unit_of(const TensorSpec& tensor, const ModelSpec& model) {
  LocalUnit unit;
  if (tensor.unit == 0) {
    if (tensor.split == TensorSplit::kVocabulary) {
      unit.role = UnitRole::kTokenEmbedding;
    } else {
      const bool input = tensor.name.starts_with("embedding.input.");
      unit.role = input ? UnitRole::kInputProjection : UnitRole::kPositionEmbedding;
    }
    unit.name = unit.role == UnitRole::kInputProjection ? "embedding.input" : tensor.name;
  } else if (tensor.unit <= model.layers) {
    unit.role = UnitRole::kLayer;
    unit.layer = tensor.unit - 1;
    unit.name = "layers." + std::to_string(unit.layer);
  } else {
    unit.role = UnitRole::kHead;
    unit.name = "head";
  }
  return unit;
}

void append(LocalUnit& unit, LocalTensor tensor) {
  tensor.offset = unit.elements;
  unit.elements += tensor.elements();
  unit.tensors.push_back(std::move(tensor));
}

// The head's use of the token table, where a unit of its own stands for it.
void append_tied(const Config& config, const TensorSpec& table, const RankCutter& cutter,
                 std::vector<LocalUnit>& units) {
  const bool shared = !tied_ends_apart(config);
  if (shared && config.numerics.mode == collectives::Numerics::kFast) return;
  LocalUnit tied;
  tied.role = UnitRole::kTied;
  tied.name = "tied";
  tied.holds_weights = !shared;
  append(tied, cutter.cut(table));
  units.push_back(std::move(tied));
}

}  // namespace

std::int64_t LocalTensor::elements() const {
  std::int64_t n = 1;
  for (const std::int64_t extent : shape) n *= extent;
  return n;
}

bool tied_ends_apart(const Config& config) {
  const std::vector<ChunkLayers> chunks = chunk_layers(config);
  return config.model.tied_head && chunks.front().stage != chunks.back().stage;
}

std::int64_t vocabulary_rows(const Config& config) {
  const Dimensions d = dimensions_of(config.model);
  if (d.classifies()) return d.outputs;
  const std::int64_t tp = config.parallel.tp;
  if (tp == 1 || config.numerics.mode == collectives::Numerics::kFast) {
    return ceil_div(config.model.vocab, tp);
  }
  const std::int64_t slices = config.numerics.tp_slices;
  return ceil_div(config.model.vocab, slices) * (slices / tp);
}

std::vector<LocalUnit> chunk_units(const Config& config, std::int64_t chunk, std::int64_t tp_rank) {
  const std::vector<ChunkLayers> chunks = chunk_layers(config);
  const ChunkLayers& own = chunks[static_cast<std::size_t>(chunk)];
  const bool last = chunk + 1 == static_cast<std::int64_t>(chunks.size());
  const std::int64_t layers = config.model.layers;
  const auto holds = [&](std::int64_t unit) {
    if (unit == 0) return chunk == 0;
    if (unit > layers) return last;
    return unit > own.first && unit <= own.first + own.count;
  };

  const RankCutter cutter(config, tp_rank);
  const std::vector<TensorSpec> tensors = parameters(config.model);
  std::vector<LocalUnit> units;
  for (const TensorSpec& tensor : tensors) {
    if (!holds(tensor.unit)) continue;
    LocalUnit unit = unit_of(tensor, config.model);
    if (units.empty() || units.back().name != unit.name) units.push_back(std::move(unit));
    append(units.back(), cutter.cut(tensor));
  }
  if (last && config.model.tied_head) append_tied(config, tensors.front(), cutter, units);
  return units;
}

}  // namespace nqd::planner
