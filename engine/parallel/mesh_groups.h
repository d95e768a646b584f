// The communicators of one rank of a mesh.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "base/ledger.h"
#include "collectives/communicator.h"
#include "planner/mesh/rank_map.h"
#include "planner/reference/group_reach.h"
#include "planner/spec.h"

namespace nqd::engine {

// Groups of one rank are null.
struct MeshGroups {
  planner::RankPlace place;
  // Ranks that hold copies of the same weights, in the order of dp. hsdp has two instead:
  // neighbours that share one copy, and the ranks with the same part of every copy.
  std::unique_ptr<collectives::Communicator> dp;
  std::unique_ptr<collectives::Communicator> dp_shard;
  std::unique_ptr<collectives::Communicator> dp_replicate;
  std::unique_ptr<collectives::Communicator> tp;
  std::unique_ptr<collectives::Communicator> pp;  // in the order of stages
  // The first and the last stage, where a tied head has them sum a gradient.
  std::unique_ptr<collectives::Communicator> embedding;
  std::unique_ptr<collectives::Communicator> control;  // all ranks; never null
  std::string backend;                                 // of all of them but control

  // Every group that is not null, in this order.
  std::vector<collectives::Communicator*> all() const;
  planner::GroupReach reach;  // as planned
  // Whether the ranks of every group that is planned to reach each other's memory do.
  bool reach_holds() const;
};

// Communicator::split of a world.
using SplitWorld = std::function<std::unique_ptr<collectives::Communicator>(
    int color, int key, const std::string& group)>;
// Collective over that world, in whose order place.rank is. Makes every group anew but `control`.
void join_groups(MeshGroups& groups, const planner::Config& config, const SplitWorld& split);

// Collective over `world`, whose size is the mesh's. Scratch of the groups is counted in `ledger`.
MeshGroups join_mesh(collectives::Communicator& world, const planner::Config& config,
                     MemoryLedger& ledger);

}  // namespace nqd::engine
