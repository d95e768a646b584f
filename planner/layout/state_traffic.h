// What one rank sends in a step for the weights and gradients of its units: the calls that the
// engine's unit store makes (engine/parallel/store/unit_store.h has the policy), each priced by
// collectives/cost.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/cost.h"
#include "planner/layout/rank_units.h"
#include "planner/layout/state_shape.h"

namespace nqd::planner {

// What the store runs among `ranks` ranks, which reach each other's memory or do not: direct where
// they do. Else a reduction is what collectives::canonical_algorithm says, in fast numerics a ring;
// all_gather is a ring, all_to_all pairwise.
collectives::Algorithm state_algorithm(collectives::Collective collective, std::int64_t ranks,
                                       std::uint64_t bytes, bool canonical, bool reaches_memory);

// Calls of one collective in one group: "dp", "dp_shard", "dp_replicate" or "embedding".
struct StateTraffic {
  std::string group;
  collectives::Collective collective = collectives::Collective::kAllReduce;
  std::uint64_t calls = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes_sent = 0;
};

struct StateTrafficOptions {
  bool dp_reaches_memory = true;         // of dp, or of hsdp's shard group
  bool replicas_reach_memory = true;     // of hsdp's replicas
  bool embedding_reaches_memory = true;  // of the two ends of a tied model
  // zero3, hsdp: how often each unit that holds weights is gathered, in the order of the units; by
  // the policy 2m, for every forward and every backward. Empty: that.
  std::vector<std::int64_t> gathers{};
};

// Of a rank that holds `units` (all chunks of its stage) and is `rank` of dp. One row a group and
// collective that has calls.
std::vector<StateTraffic> state_traffic(const StateShape& shape,
                                        const std::vector<LocalUnit>& units, std::int64_t rank,
                                        const StateTrafficOptions& options);

}  // namespace nqd::planner
