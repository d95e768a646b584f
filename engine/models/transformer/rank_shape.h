// The extents of a model's activations on one tensor-parallel rank.
#pragma once

#include <cstdint>

#include "engine/device/products.h"
#include "engine/models/transformer/context.h"
#include "planner/spec.h"

namespace nqd::engine {

struct TransformerOptions {
  double dropout = 0;  // probability of a zero
};

struct RankShape {
  std::int64_t batch = 0;
  std::int64_t sequence = 0;
  std::int64_t rows = 0;           // batch · sequence
  std::int64_t target_rows = 0;    // of the head: rows, or batch where it classifies samples
  std::int64_t features = 0;       // numbers a row is given; 0: a token
  std::int64_t residual_rows = 0;  // rows of the residual stream here, from first_row on
  std::int64_t first_row = 0;
  std::int64_t hidden = 0;
  std::int64_t model_heads = 0;  // of all ranks
  std::int64_t heads = 0;
  std::int64_t kv_heads = 0;
  std::int64_t head_width = 0;
  std::int64_t queries = 0;  // heads · head_width, also the width of attention's output
  std::int64_t keys = 0;     // kv_heads · head_width, also that of the values
  std::int64_t ffn = 0;
  std::int64_t gates = 1;
  std::int64_t vocabulary = 0;         // of the model; or its classes
  std::int64_t vocabulary_stride = 0;  // rows of the table, padding included
  std::int64_t first_token = 0;        // of the vocabulary
  std::int64_t tokens = 0;             // of the vocabulary here, without padding
  bool layer_norm = true;
  double norm_epsilon = 0;
  bool rotary = false;
  bool causal = true;
  bool split_qkv = false;   // query weights apart from those of keys and values
  std::int64_t blocks = 1;  // in which the rank's rows are summed
  SliceShare slices;
  std::uint64_t seed = 0;
  TransformerOptions options;

  std::int64_t qkv() const { return queries + 2 * keys; }
  std::int64_t residual_elements() const { return residual_rows * hidden; }
};

RankShape rank_shape(const planner::Config& config, const TransformerOptions& options,
                     const TensorParallel& tp);

}  // namespace nqd::engine
