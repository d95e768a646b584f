// Whole tensors out of the parts that ranks hold, one at a time: memory is bounded by the largest
// tensor.
#pragma once

#include <functional>
#include <span>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/parallel/store/unit_store.h"
#include "planner/layout/rank_units.h"
#include "planner/spec.h"

namespace nqd::engine {

// Who updates the units of one chunk.
struct ChunkOwners {
  std::vector<std::vector<planner::LocalUnit>> units;  // by tp rank
  std::vector<std::vector<int>> ranks;                 // world rank by tp rank and part
};
// All chunks of a model, in order. Preconditions as of planner::chunk_units.
std::vector<ChunkOwners> model_owners(const planner::Config& config);

// Collective over `world`, which has all ranks of the mesh. On rank 0 calls
// sink(tensor, values) for every tensor of the model, in the order of parameters(), with its
// float32 weights (the master where weights are 16-bit); not on the others. Sends are blocking
// messages of one rank's part of a tensor.
void export_tensors(const UnitStore& store, const std::vector<ChunkOwners>& owners,
                    collectives::Communicator& world,
                    const std::function<void(const planner::TensorSpec& tensor,
                                             std::span<const float> values)>& sink);

// Collective likewise. SHA-256 of the bytes of all tensors, one behind the other, the same on all
// ranks: equal weights have equal digests on any mesh.
std::string weights_sha256(const UnitStore& store, const std::vector<ChunkOwners>& owners,
                           collectives::Communicator& world);

}  // namespace nqd::engine
