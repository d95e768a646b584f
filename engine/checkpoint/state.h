// Between a rank's store and the parts of a generation.
#pragma once

#include <cstdint>
#include <vector>

#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/shard.h"
#include "engine/parallel/store/unit_store.h"

namespace nqd::engine {

// weights, the optimizer's moments, ema: what a store of this shape has.
std::vector<Quantity> quantities_of(const planner::StateShape& shape);

// What a rank saves, without values: of a place of the mesh (`units` are those of its stage and tp
// rank).
std::vector<ShardPart> planned_parts(const planner::StateShape& shape,
                                     const std::vector<planner::LocalUnit>& units,
                                     std::int64_t dp_rank, std::int64_t tp_rank);

// What this rank saves: views of the store, valid until it changes, in memory of its device.
std::vector<ShardPart> saved_parts(UnitStore& store);

// The same in memory of the host: those views where the device's memory is the host's, else copies
// in `room`.
std::vector<ShardPart> host_parts(UnitStore& store, std::vector<float>& room);

// The same parts, of values copied to `room`, which has the size of UnitStore::snapshot().
std::vector<ShardPart> copied_parts(UnitStore& store, std::span<float> room);

// Sets weights, moments and ema of all that this rank holds, whatever mesh wrote the generation.
// Local; before the first step or between two. Throws what CheckpointReader::read does.
void restore(UnitStore& store, const CheckpointReader& reader);

}  // namespace nqd::engine
