#include "engine/parallel/mesh_groups.h"

#include "planner/layout/rank_units.h"
#include "planner/layout/state_shape.h"

namespace nqd::engine {
namespace {

using collectives::Communicator;

int small(std::int64_t value) { return static_cast<int>(value); }

}  // namespace

std::vector<Communicator*> MeshGroups::all() const {
  std::vector<Communicator*> groups;
  for (const auto* group : {&dp, &dp_shard, &dp_replicate, &tp, &pp, &embedding, &control}) {
    if (*group) groups.push_back(group->get());
  }
  return groups;
}

bool MeshGroups::reach_holds() const {
  const auto holds = [](bool planned, const std::unique_ptr<Communicator>& group) {
    return !planned || !group || group->shares_memory();
  };
  return holds(reach.dp, dp) && holds(reach.dp, dp_shard) && holds(reach.replicas, dp_replicate) &&
         holds(reach.tp, tp) && holds(reach.embedding, embedding);
}

void join_groups(MeshGroups& groups, const planner::Config& config, const SplitWorld& split) {
  const planner::ParallelSpec& mesh = config.parallel;
  const planner::RankPlace& place = groups.place;
  // Ranks with the same `color` form a group of `size`.
  const auto group_of = [&](std::int64_t size, std::int64_t color, std::int64_t key,
                            const std::string& name) {
    return size > 1 ? split(small(color), small(key), name) : nullptr;
  };
  const std::int64_t copies = place.pp * mesh.tp + place.tp;
  const std::int64_t pipeline = place.dp * mesh.tp + place.tp;
  if (mesh.engine == planner::Engine::kHsdp) {
    const std::int64_t shard = planner::state_shape(config).hsdp_shard;
    const std::int64_t replicas = mesh.dp / shard;
    const std::int64_t replica = place.dp / shard;
    const std::int64_t part = place.dp % shard;
    groups.dp_shard = group_of(shard, copies * replicas + replica, part, "dp_shard");
    groups.dp_replicate = group_of(replicas, copies * shard + part, replica, "dp_replicate");
  } else {
    groups.dp = group_of(mesh.dp, copies, place.dp, "dp");
  }
  groups.tp = group_of(mesh.tp, place.dp * mesh.pp + place.pp, place.tp, "tp");
  groups.pp = group_of(mesh.pp, pipeline, place.pp, "pp");
  if (planner::tied_ends_apart(config)) {
    const bool end = place.pp == 0 || place.pp == mesh.pp - 1;
    groups.embedding = split(end ? small(pipeline) : -1, small(place.pp), "embedding");
  }
}

MeshGroups join_mesh(Communicator& world, const planner::Config& config, MemoryLedger& ledger) {
  MeshGroups groups;
  groups.place = planner::RankMap(config).place(world.rank());
  groups.reach = planner::group_reach(config);
  groups.backend = world.backend();
  join_groups(groups, config, [&](int color, int key, const std::string& name) {
    return world.split(color, key, name);
  });
  groups.control = world.split(0, world.rank(), "control");
  for (Communicator* group : groups.all()) group->set_ledger(&ledger);
  return groups;
}

}  // namespace nqd::engine
