// What one rank sends in a step for the weights and gradients of its units: the calls that the
// engine's unit store makes (engine/parallel/store/unit_store.h has the policy), each priced by
// collectives/cost.h.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/cost.h"
#include "planner/layout/rank_units.h"
#include "planner/layout/state_shape.h"

namespace nqd::planner {

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

// Equal calls of a step, on one bucket or unit.
struct StateCall {
  enum class Purpose : std::uint8_t {
    kReplicaSum,       // gradients over the replicas, beside the last backward
    kReplicaExchange,  // of partial sums that one collective does not add, after it
    kLeafSum,          // the gradient of one micro-batch over its shards, beside its backward
    kUpdateGather,     // weights after the update
    kUseGather,        // weights before each use
    kEnds,             // the gradient of a tied table
  };
  std::string group;
  Purpose purpose = Purpose::kReplicaSum;
  collectives::Collective collective = collectives::Collective::kAllReduce;
  collectives::Algorithm algorithm = collectives::Algorithm::kAuto;
  std::int64_t elements = 0;  // of the full vector
  DType type = DType::kFloat32;
  std::int64_t calls = 0;
  collectives::RankTraffic sent{};  // in all of them
  double ready = 1;                 // of sums: the share of a backward after which they can start
};

// Of a rank that holds `units` (all chunks of its stage) and is `rank` of dp; sums in the order in
// which backward completes them.
std::vector<StateCall> state_calls(const StateShape& shape, const std::vector<LocalUnit>& units,
                                   std::int64_t rank, const StateTrafficOptions& options);
// The same, one row a group and collective.
std::vector<StateTraffic> state_traffic(const StateShape& shape,
                                        const std::vector<LocalUnit>& units, std::int64_t rank,
                                        const StateTrafficOptions& options);

}  // namespace nqd::planner
