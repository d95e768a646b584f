// Every call that one rank of nqd's own engine makes in one optimizer step, exactly as the engine
// makes them (planner/reference/reference_plan.h says which configs it runs).
//
// m micro-batches; rows = micro_batch_size · sequence; h hidden; S the type of weights; float32
// where no type is given; padded(n), part(n), replicas: planner/layout/state_shape.h. Canonical
// sums of micro-batches that do not fit one vector a rank are all_to_alls of parts
// (collectives/canonical/canonical.h).
//
//   dp            ddp: all_reduce of each bucket. zero1: reduce_scatter of padded(n) of each unit;
//                 zero2: of every micro-batch (canonical on no power of two of ranks: all_to_all);
//                 both: all_gather of S, padded(n), of each unit with weights. zero3: all_gather of
//                 S, padded(n), of each unit for every use of its weights, and zero2's reductions
//   dp_shard      hsdp: as zero3
//   dp_replicate  hsdp: all_reduce of part(n) of each unit
//   tp            a micro-batch, all_reduce of [rows, h]: two a layer forward (again in
//                 recomputation, but for the last of a group of layers) and two backward, one of
//                 the token embedding (S), one of the head's input gradient; of [rows] and
//                 [rows, 2] in the loss. Sequence parallelism: reduce_scatter in place of those of
//                 [rows, h]; all_gather of S [rows, h]: two a layer forward (and in recomputation),
//                 four backward, one for the head's input and one of the token embedding's
//                 gradient; all_reduce of the gradients of the replicated tensors of each unit
//   pp            S [rows of the residual stream, h] to the stage of the next chunk, and back
//   embedding     all_reduce of the tied table's gradient: n, sharded part(n)
#pragma once

#include <cstdint>
#include <vector>

#include "planner/layout/rank_units.h"
#include "planner/plan/communication.h"
#include "planner/reference/calls.h"
#include "planner/spec.h"

namespace nqd::planner {

// A stage's units on a tp rank (they differ between tp ranks in pieces, not in extents): those of
// its chunks one after the other.
struct ReferenceStage {
  struct Chunk {
    std::int64_t chunk = 0;
    std::size_t begin = 0, end = 0;  // of its units
  };
  std::vector<Chunk> chunks;
  std::vector<LocalUnit> units;
};
std::vector<ReferenceStage> reference_stages(const Config& config);

// How often one micro-batch uses a unit's weights: each use is a gather where they are sharded.
struct UnitUses {
  std::int64_t forward = 0;
  std::int64_t backward = 0;  // recomputation included
};
// Of every unit of a stage, chunk after chunk.
std::vector<UnitUses> unit_uses(const Config& config, const ReferenceStage& stage);

// `stage` is that of the rank. Times are those of call_time, exposed behind `compute`.
CallTally engine_calls(const Config& config, const ReferenceStage& stage,
                       const MicroBatchTime& compute, std::int64_t rank);

// Its parts: groups "dp", "dp_shard", "dp_replicate" and "embedding"; groups "tp" and "pp".
void add_state_calls(const Config& config, const ReferenceStage& stage,
                     const MicroBatchTime& compute, std::int64_t rank, CallTally& calls);
void add_activation_calls(const Config& config, const ReferenceStage& stage, std::int64_t rank,
                          CallTally& calls);

}  // namespace nqd::planner
