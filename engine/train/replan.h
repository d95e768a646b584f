// The plan of what the ranks turned out to be.
#pragma once

#include <optional>

#include "collectives/communicator.h"
#include "engine/parallel/mesh_groups.h"
#include "planner/plan/plan.h"

namespace nqd::engine {

// Collective over `world`. A plan is made before it is known what starts the ranks and whether they
// reach one another's memory: a new one where the config's does not hold, the same on all ranks.
// Rank 0 logs why gradients are reduced otherwise than planned.
std::optional<planner::Plan> replan(collectives::Communicator& world, const planner::Config& config,
                                    const MeshGroups& groups);

}  // namespace nqd::engine
