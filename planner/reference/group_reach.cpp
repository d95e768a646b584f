#include "planner/reference/group_reach.h"

#include "planner/layout/state_shape.h"
#include "planner/mesh/fabric.h"

namespace nqd::planner {

GroupReach group_reach(const Config& config) {
  const auto reaches = [&](const Group& group) {
    return config.cluster.ranks_share_memory && inside_node(config.cluster, group);
  };
  const Group all = dp_group(config.parallel);
  const Group pipeline = pp_group(config.parallel);
  GroupReach reach;
  reach.dp = reaches(all);
  reach.tp = reaches(tp_group(config.parallel));
  reach.embedding = reaches({"embedding", 2, pipeline.stride * (pipeline.size - 1)});
  if (config.parallel.engine != Engine::kHsdp) return reach;
  const std::int64_t shard = state_shape(config).hsdp_shard;
  reach.dp = reaches({"dp_shard", shard, all.stride});
  reach.replicas = reaches({"dp_replicate", all.size / shard, all.stride * shard});
  return reach;
}

}  // namespace nqd::planner
