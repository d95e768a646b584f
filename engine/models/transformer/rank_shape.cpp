#include "engine/models/transformer/rank_shape.h"

#include <algorithm>

#include "planner/layout/activation_buffers.h"
#include "planner/layout/rank_units.h"
#include "planner/models/dimensions.h"

namespace nqd::engine {
namespace {

SliceShare slice_share(const planner::Config& config, const TensorParallel& tp) {
  if (config.numerics.mode == collectives::Numerics::kFast) return {};
  const auto slices = static_cast<int>(config.numerics.tp_slices);
  const int count = slices / tp.size;
  return {true, slices, tp.rank * count, count};
}

// Where sequence parallelism may split the rows, their sums are made of one block a slice.
std::int64_t row_blocks(const SliceShare& slices, std::int64_t rows, bool rows_are_split) {
  if (!slices.canonical || rows % slices.total != 0) return 1;
  return rows_are_split ? slices.count : slices.total;
}

}  // namespace

RankShape rank_shape(const planner::Config& config, const TransformerOptions& options,
                     const TensorParallel& tp) {
  const planner::ModelSpec& model = config.model;
  const planner::Dimensions d = planner::dimensions_of(model);
  const bool rows_are_split = tp.sequence_parallel && tp.size > 1;
  RankShape s;
  s.batch = config.train.micro_batch_size;
  s.sequence = model.sequence;
  s.rows = s.batch * s.sequence;
  s.target_rows = s.batch * d.targets;
  s.features = d.patch_elements;
  s.residual_rows = planner::residual_rows(config);
  s.first_row = rows_are_split ? tp.rank * s.residual_rows : 0;
  s.hidden = d.hidden;
  s.model_heads = d.heads;
  s.heads = d.heads / tp.size;
  s.kv_heads = d.kv_heads / tp.size;
  s.head_width = d.qk_dim;
  s.queries = d.queries / tp.size;
  s.keys = d.keys / tp.size;
  s.ffn = d.ffn / tp.size;
  s.gates = d.gates;
  s.vocabulary = d.outputs;
  s.vocabulary_stride = planner::vocabulary_rows(config);
  s.first_token = std::min(tp.rank * s.vocabulary_stride, s.vocabulary);
  s.tokens = std::min(s.first_token + s.vocabulary_stride, s.vocabulary) - s.first_token;
  s.layer_norm = model.norm == planner::Norm::kLayerNorm;
  s.norm_epsilon = model.norm_epsilon;
  s.rotary = model.positions == planner::Positions::kRotary;
  s.causal = model.causal;
  s.split_qkv = d.kv_heads != d.heads;
  s.slices = slice_share(config, tp);
  s.blocks = row_blocks(s.slices, s.rows, rows_are_split);
  s.seed = static_cast<std::uint64_t>(config.train.seed);
  s.options = options;
  return s;
}

}  // namespace nqd::engine
