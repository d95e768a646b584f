// Where the ranks of a communication group sit, and what one call among them costs in time.
#pragma once

#include <cstdint>
#include <string>

#include "collectives/cost.h"
#include "planner/spec.h"

namespace nqd::planner {

// The algorithm that a plan prices: nqd's ring, pairwise exchange for all_to_all, or the only one
// of send_recv.
collectives::Algorithm priced_algorithm(collectives::Collective collective);

// Ranks base, base + stride, … of the world; tp is innermost, then cp, then pp and dp in the order
// of parallel.order.
struct Group {
  std::string name;
  std::int64_t size = 1;
  std::int64_t stride = 1;
};
// tp inside an expert on a mesh of `tp`: parallel.expert_tp, by default and at most tp.
std::int64_t expert_tp_of(const ParallelSpec& parallel, std::int64_t tp);

Group tp_group(const ParallelSpec& parallel);
Group pp_group(const ParallelSpec& parallel);
Group dp_group(const ParallelSpec& parallel);
Group cp_group(const ParallelSpec& parallel);
// Experts take the tp·cp·dp ranks of a stage, expert_tp and then ep at a time. A group that does
// not end with tp·cp goes on over dp: both are strided twice then, and the stride is the inner one.
Group ep_group(const ParallelSpec& parallel);
Group expert_dp_group(const ParallelSpec& parallel);  // hold copies of one routed expert's part
// The dp·cp ranks that hold copies of a dense weight. With cp > 1 they may be strided twice; the
// stride is then the inner one.
Group gradient_group(const ParallelSpec& parallel);

// True when all ranks of the group share one node (a node holds gpus_per_node consecutive ranks).
bool inside_node(const ClusterSpec& cluster, const Group& group);

// How many ranks of the group one node holds, at least 1.
std::int64_t ranks_in_node(const ClusterSpec& cluster, const Group& group);

// Ranks of an hsdp shard group that is not given: the most that divide dp and share a node.
std::int64_t default_hsdp_shard(const ClusterSpec& cluster, const ParallelSpec& parallel);
std::int64_t default_hsdp_shard(std::int64_t gpus_per_node, const Group& dp);

struct CallTime {
  double seconds = 0;         // 0 when !known, or for a group of one rank
  bool known = true;          // false: the link's bandwidth is not given
  bool extrapolated = false;  // a calibrated curve was used beyond its measured sizes
};

// Time of one call with payload `bytes` as collectives/cost.h defines it. A calibrated curve of the
// same collective, number of ranks and place (inside a node or across nodes) goes first, that of
// `algorithm` before ring, library and auto; else the α–β model over cluster.intra_node when the
// group is inside a node and over cluster.inter_node otherwise. A ring that crosses nodes uses the
// network share of all its members of a node, up to intra_node's rate.
CallTime call_time(const ClusterSpec& cluster, const Group& group,
                   collectives::Collective collective, collectives::Algorithm algorithm,
                   double bytes);

// A group on the scale-up domains of the cluster.
struct Placement {
  std::int64_t size = 1;
  std::int64_t together = 1;  // ranks of one scale-up domain
  bool inside() const { return together >= size; }
};
Placement place(const ClusterSpec& cluster, std::int64_t size, std::int64_t stride);
// `inner` ranks of stride `inner_stride`, `outer` such groups `outer_stride` apart.
Placement nested(const ClusterSpec& cluster, std::int64_t inner, std::int64_t inner_stride,
                 std::int64_t outer, std::int64_t outer_stride);
// `size` ranks that lie `step` apart among those of a stage: `replica` = tp·cp neighbours, then dp
// with stride `dp_stride`.
Placement place_in_stage(const ClusterSpec& cluster, std::int64_t size, std::int64_t step,
                         std::int64_t replica, std::int64_t dp_stride);

// Seconds of a call by its payload: a calibrated curve, else latency_s + s_per_byte · bytes.
struct ExchangeCost {
  double latency_s = 0;
  double s_per_byte = 0;
  const CalibratedCurve* curve = nullptr;
  double seconds(double bytes) const;
};

// Costs of devices, in bytes of the payload that every rank holds (all_reduce), that it ends with
// (all_gather; reduce_scatter is its mirror) or that it sends (all_to_all, itself included).
// `network_share` is what the exchange reaches of the adapters' rate. A calibrated ring, library or
// auto curve of the same collective, ranks and place goes first.
ExchangeCost all_reduce_cost(const ClusterSpec& cluster, const Placement& group,
                             double network_share);
ExchangeCost all_gather_cost(const ClusterSpec& cluster, const Placement& group,
                             double network_share);
// `crossing`: share of an all_to_all's bytes for other domains that the adapters really send.
ExchangeCost all_to_all_cost(const ClusterSpec& cluster, const Placement& group,
                             double network_share, double crossing = 1);

}  // namespace nqd::planner
