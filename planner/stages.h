// Which tensors each pipeline stage holds on one tensor-parallel rank, before any sharding over dp.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/layout.h"
#include "planner/spec.h"

namespace nqd::planner {

struct StageLayout {
  std::int64_t stage = 0;
  std::int64_t layers = 0;  // of all virtual stages of this rank
  bool first = false;       // holds the embeddings
  bool last = false;        // holds the final norm and the head
  double parameters = 0;    // elements on one tp rank
  // Elements of one tp rank by unit, in forward order; empty for family "state".
  std::vector<double> units;
  // The same tensors one by one, in forward order, with the extents of one tp rank; empty for
  // family "state".
  std::vector<TensorSpec> tensors;
};

// One record a stage (parallel.pp of them). The embeddings are on the first stage, the final norm
// and the head on the last; a tied head keeps a second copy of the token embedding there when
// pp > 1. Layers follow parallel.pipeline_split (pp·vpp entries, virtual stage i on stage i mod
// pp), else they are even (a remainder goes to the first stages). As all layers are alike, a stage
// is given consecutive ones, also where virtual stages interleave them. A split tensor has
// ⌈elements/tp⌉ elements on a rank, the vocabulary ⌈V/tp⌉ rows (it is padded to a multiple of tp).
// A "state" model is Φ/(tp·pp) a stage.
std::vector<StageLayout> stage_layouts(const Config& config);

// Layers on `stage` as above.
std::int64_t layers_of_stage(const Config& config, std::int64_t stage);

// Bytes of one element of weights (and of activations).
std::int64_t weight_bytes(const TrainSpec& train);
// Bytes of one accumulated gradient, which is also what data-parallel ranks reduce.
std::int64_t gradient_bytes(const TrainSpec& train);

}  // namespace nqd::planner
