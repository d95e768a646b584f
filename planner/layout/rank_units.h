// The exact tensors of one rank, unit by unit: the engine allocates, shards, gathers and fills by
// this list, the planner budgets by it, and an export puts the whole model together from it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "planner/layout/layout.h"

namespace nqd::planner {

// A run of `count` elements: where it begins in the tensor of the whole model and where in the
// rank's.
struct Piece {
  std::int64_t full = 0;
  std::int64_t local = 0;
  std::int64_t count = 0;
  bool operator==(const Piece&) const = default;
};

// Linear weights are [out, in]. On tp ranks
//   qkv, q, kv, mlp.fc     dim 0 is split, each stacked block (q | k | v, k | v, gate | up) by
//   itself proj                   dim 1 is split token table, head      dim 0 is split into equal
//   parts, the last rows padded:
//                          canonical ⌈V/slices⌉·slices/tp rows a rank (tp = 1: V), fast ⌈V/tp⌉
//   all others             whole on every rank
struct LocalTensor {
  TensorSpec full;                  // of the whole model
  std::vector<std::int64_t> shape;  // on this rank, padded rows included
  std::int64_t offset = 0;          // elements, in its unit on this rank
  // What it holds of the full tensor, ascending in both, runs that touch in both made one. Padding
  // is in none: its weights and gradients are zero.
  std::vector<Piece> pieces;
  bool replicated = false;  // every tp rank holds all of it
  std::int64_t elements() const;
};

enum class UnitRole : std::uint8_t {
  kTokenEmbedding,
  kInputProjection,
  kPositionEmbedding,
  kLayer,
  kHead,
  kTied
};
inline constexpr UnitRole kUnitRoles[] = {UnitRole::kTokenEmbedding,
                                          UnitRole::kInputProjection,
                                          UnitRole::kPositionEmbedding,
                                          UnitRole::kLayer,
                                          UnitRole::kHead,
                                          UnitRole::kTied};

// What a fully sharded rank gathers at once. Its tensors lie one after the other, in the order of
// parameters().
struct LocalUnit {
  UnitRole role = UnitRole::kLayer;
  std::int64_t layer = -1;  // of kLayer
  // "embedding.token" ("embedding.input" of an encoder), "embedding.position", "layers.3", "head"
  // (final norm, and the weight and bias of a head of its own), "tied" (the head's use of the token
  // table; its tensor is named "embedding.token").
  std::string name;
  std::vector<LocalTensor> tensors;
  std::int64_t elements = 0;
  // False for kTied on a stage that has the embedding too: it reads the embedding's weights and has
  // only a gradient of its own. (In fast numerics there is no such unit: the head adds to the
  // embedding's gradient.)
  bool holds_weights = true;
};

// The units of one chunk (virtual stage, 0 … p·v−1) on one tp rank, in forward order; `chunk`s in
// order and their units in order are the model. Preconditions: a dense decoder (gpt, llama) without
// multi-token prediction, or an encoder of time series; tp divides heads, kv_heads and ffn_hidden,
// and in canonical numerics numerics.tp_slices.
std::vector<LocalUnit> chunk_units(const Config& config, std::int64_t chunk, std::int64_t tp_rank);

// Whether the head reads a copy of the token table that another stage than the embedding's holds:
// the two sum their gradients (group "embedding") and make equal updates.
bool tied_ends_apart(const Config& config);

// Rows of the vocabulary that a tp rank holds, padding included; of an encoder its classes.
std::int64_t vocabulary_rows(const Config& config);

}  // namespace nqd::planner
