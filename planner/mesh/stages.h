// Which tensors each pipeline stage holds on one tensor-parallel rank, before any sharding over dp.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/layout/layout.h"
#include "planner/schedule/schedule.h"
#include "planner/spec.h"

namespace nqd::planner {

// What of a transformer lies on one stage.
struct StageShare {
  std::int64_t dense = 0;  // layers with an ordinary MLP
  std::int64_t moe = 0;    // layers with experts
  bool first = false;      // the embeddings
  bool last = false;       // multi-token prediction, final norm and head
  std::int64_t layers() const { return dense + moe; }
  bool operator==(const StageShare&) const = default;
};

// Of `dense` layers followed by `moe` ones. `split` has the layers of every chunk (virtual stage)
// in order; when it is empty they are even, a remainder as in planner/mesh/layer_split.h. The
// schedule says which stage holds a chunk: with zb-v the first stage has both ends of the model.
StageShare stage_share(const ScheduleSpec& spec, std::span<const std::int64_t> split,
                       std::int64_t dense, std::int64_t moe, std::int64_t stage);

// The layers of one chunk (virtual stage) and the stage that holds it.
struct ChunkLayers {
  std::int64_t stage = 0;
  std::int64_t first = 0;  // layer
  std::int64_t count = 0;
};
// Of every chunk in order, as `config` asks: a split, or an even one (planner/mesh/layer_split.h).
std::vector<ChunkLayers> chunk_layers(const Config& config);

struct StageLayout {
  std::int64_t stage = 0;
  std::int64_t layers = 0;  // of all virtual stages of this rank
  bool first = false;       // as in StageShare
  bool last = false;
  double parameters = 0;  // elements on one tp rank
  // Elements of one tp rank by unit, in forward order; empty without layers.
  std::vector<double> units;
  // The same tensors one by one, in forward order, with the extents of one tp rank; empty
  // without layers.
  std::vector<TensorSpec> tensors;
};

// One record a stage (parallel.pp of them). The embeddings are on the stage with the first chunk,
// the final norm and the head on that with the last; a tied head, and multi-token prediction, keep
// a second copy of the token embedding there when the two differ. Every layer is listed on its
// stage. A split tensor has ⌈elements/parts⌉ elements on a rank, the vocabulary ⌈V/tp⌉ rows (it is
// padded to a multiple of tp). Families without layers are Φ/(tp·pp) a stage.
std::vector<StageLayout> stage_layouts(const Config& config);

// Layers on `stage`, all its chunks together.
std::int64_t layers_of_stage(const Config& config, std::int64_t stage);

// Bytes of one element of weights (and of activations).
std::int64_t weight_bytes(const TrainSpec& train);
// Bytes of one accumulated gradient, which is also what data-parallel ranks reduce.
std::int64_t gradient_bytes(const TrainSpec& train);

}  // namespace nqd::planner
