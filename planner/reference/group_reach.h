// Which groups of a mesh are planned to use each other's memory: those inside a node whose ranks
// share it. The engine follows this, also where ranks reach more than was planned.
#pragma once

#include "planner/spec.h"

namespace nqd::planner {

struct GroupReach {
  bool dp = false;        // all ranks of dp; hsdp: a shard group
  bool replicas = false;  // hsdp: the ranks with the same shard
  bool tp = false;
  bool embedding = false;
};
GroupReach group_reach(const Config& config);

}  // namespace nqd::planner
