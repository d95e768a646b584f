#include "planner/mesh/fabric.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "planner/calibration/calibration.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

// A curve of what will run first, then of nqd's own ring.
const CalibratedCurve* find_curve(const ClusterSpec& cluster, std::int64_t ranks, bool inside,
                                  Collective collective, Algorithm wanted = Algorithm::kRing) {
  if (cluster.curves.empty()) return nullptr;
  for (std::string_view algorithm : {name(wanted), name(Algorithm::kRing),
                                     std::string_view("library"), std::string_view("auto")}) {
    for (const CalibratedCurve& curve : cluster.curves) {
      if (curve.collective == name(collective) && curve.ranks == ranks &&
          curve.inside_node == inside && curve.algorithm == algorithm && !curve.pieces.empty()) {
        return &curve;
      }
    }
  }
  return nullptr;
}

double inter_node_bandwidth(const ClusterSpec& cluster, const Group& group, Collective collective) {
  const double share = cluster.inter_node.bandwidth_bytes_per_s;
  if (collective == Collective::kSendRecv) return share;
  const double together = share * static_cast<double>(ranks_in_node(cluster, group));
  const double intra = cluster.intra_node.bandwidth_bytes_per_s;
  return intra > 0 ? std::max(share, std::min(together, intra)) : together;
}

// Ranks `step` apart among those of a stage, tp and cp before dp, as ranks of the world.
std::int64_t stride_over_stage(const ParallelSpec& parallel, std::int64_t step) {
  const std::int64_t replica = parallel.tp * parallel.cp;
  if (step < replica) return step;
  return step / replica * dp_group(parallel).stride;
}

}  // namespace

Algorithm priced_algorithm(Collective collective) {
  if (collective == Collective::kSendRecv) return Algorithm::kAuto;
  return collective == Collective::kAllToAll ? Algorithm::kPairwise : Algorithm::kRing;
}

Group tp_group(const ParallelSpec& parallel) { return {"tp", parallel.tp, 1}; }
Group pp_group(const ParallelSpec& parallel) {
  const bool outermost = parallel.order == MeshOrder::kDpThenPp;
  return {"pp", parallel.pp, parallel.tp * parallel.cp * (outermost ? parallel.dp : 1)};
}
Group dp_group(const ParallelSpec& parallel) {
  const bool outermost = parallel.order == MeshOrder::kPpThenDp;
  return {"dp", parallel.dp, parallel.tp * parallel.cp * (outermost ? parallel.pp : 1)};
}
Group cp_group(const ParallelSpec& parallel) { return {"cp", parallel.cp, parallel.tp}; }
std::int64_t expert_tp_of(const ParallelSpec& parallel, std::int64_t tp) {
  return parallel.expert_tp > 0 ? std::min(parallel.expert_tp, tp) : tp;
}

Group ep_group(const ParallelSpec& parallel) {
  return {"ep", parallel.ep, stride_over_stage(parallel, expert_tp_of(parallel, parallel.tp))};
}
Group expert_dp_group(const ParallelSpec& parallel) {
  const std::int64_t parts = parallel.ep * expert_tp_of(parallel, parallel.tp);
  return {"expert_dp", std::max<std::int64_t>(1, parallel.dp * parallel.cp * parallel.tp / parts),
          stride_over_stage(parallel, parts)};
}
Group gradient_group(const ParallelSpec& parallel) {
  Group group = dp_group(parallel);
  if (parallel.cp > 1) group = {group.name, parallel.dp * parallel.cp, parallel.tp};
  return group;
}

bool inside_node(const ClusterSpec& cluster, const Group& group) {
  return (group.size - 1) * group.stride < cluster.gpus_per_node;
}

std::int64_t ranks_in_node(const ClusterSpec& cluster, const Group& group) {
  return std::clamp<std::int64_t>(cluster.gpus_per_node / group.stride, 1,
                                  std::max<std::int64_t>(group.size, 1));
}

std::int64_t default_hsdp_shard(const ClusterSpec& cluster, const ParallelSpec& parallel) {
  return default_hsdp_shard(cluster.gpus_per_node, dp_group(parallel));
}

std::int64_t default_hsdp_shard(std::int64_t gpus_per_node, const Group& dp) {
  std::int64_t shard = std::clamp<std::int64_t>(gpus_per_node / dp.stride, 1, dp.size);
  while (dp.size % shard != 0) --shard;
  return shard;
}

CallTime call_time(const ClusterSpec& cluster, const Group& group, Collective collective,
                   Algorithm algorithm, double bytes) {
  CallTime time;
  if (group.size <= 1) return time;
  if (const CalibratedCurve* curve =
          find_curve(cluster, group.size, inside_node(cluster, group), collective, algorithm)) {
    time.seconds = curve_time_s(*curve, bytes, &time.extrapolated);
    return time;
  }
  const bool inside = inside_node(cluster, group);
  const LinkSpec& link = inside ? cluster.intra_node : cluster.inter_node;
  const double bandwidth =
      inside ? link.bandwidth_bytes_per_s : inter_node_bandwidth(cluster, group, collective);
  time.known = bandwidth > 0;
  if (!time.known) return time;
  time.seconds = collectives::time_s(collective, algorithm, static_cast<std::size_t>(group.size),
                                     bytes, {link.alpha_s, 1 / bandwidth});
  return time;
}

namespace {

std::int64_t scale_up_domain(const ClusterSpec& cluster) {
  return cluster.nvlink_domain > 0 ? cluster.nvlink_domain : cluster.gpus_per_node;
}

}  // namespace

Placement place(const ClusterSpec& cluster, std::int64_t size, std::int64_t stride) {
  const std::int64_t domain = scale_up_domain(cluster);
  if ((size - 1) * stride < domain) return {size, std::max<std::int64_t>(size, 1)};
  return {size, std::clamp<std::int64_t>(domain / stride, 1, size)};
}

Placement nested(const ClusterSpec& cluster, std::int64_t inner, std::int64_t inner_stride,
                 std::int64_t outer, std::int64_t outer_stride) {
  const Placement near = place(cluster, inner, inner_stride);
  if (!near.inside()) return {inner * outer, near.together};
  return {inner * outer, near.together * place(cluster, outer, outer_stride).together};
}

Placement place_in_stage(const ClusterSpec& cluster, std::int64_t size, std::int64_t step,
                         std::int64_t replica, std::int64_t dp_stride) {
  const std::int64_t domain = scale_up_domain(cluster);
  const auto place_of = [&](std::int64_t member) {
    const std::int64_t rank = member * step;
    return rank % replica + rank / replica * dp_stride;
  };
  std::int64_t together = 1;
  while (together < size && place_of(together) < domain) ++together;
  return {size, together};
}

namespace {

// Bus bandwidth of `ranks` inside a domain.
double scale_up_bandwidth(const ClusterSpec& cluster, std::int64_t ranks) {
  const std::vector<double>& list = cluster.fabric.scale_up_bandwidths;
  if (list.empty()) return cluster.fabric.scale_up_share * cluster.intra_node.bandwidth_bytes_per_s;
  const auto index = static_cast<std::size_t>(std::max<std::int64_t>(ranks, 2) - 2);
  return list[std::min(index, list.size() - 1)];
}

double scale_up_latency(const ClusterSpec& cluster, std::int64_t ranks) {
  const std::vector<double>& list = cluster.fabric.scale_up_latencies;
  if (list.empty()) return 2 * static_cast<double>(ranks - 1) * cluster.intra_node.alpha_s;
  const auto index = static_cast<std::size_t>(std::max<std::int64_t>(ranks, 2) - 2);
  return list[std::min(index, list.size() - 1)];
}

// Of an all_reduce.
ExchangeCost ring_cost(const ClusterSpec& cluster, const Placement& group, double network_share) {
  if (group.size <= 1) return {};
  const auto n = static_cast<double>(group.size);
  const double factor = 2 * (n - 1) / n;
  double latency = scale_up_latency(cluster, group.together);
  double rate = scale_up_bandwidth(cluster, std::min<std::int64_t>(group.together, group.size));
  if (group.together <= 1) latency = 0;
  if (!group.inside()) {
    // One ring enters and leaves a domain through the adapters of all its members there.
    const double adapters = static_cast<double>(group.together) * network_share *
                            cluster.inter_node.bandwidth_bytes_per_s / cluster.oversubscription;
    rate = group.together > 1 ? std::min(rate, adapters) : adapters;
    latency += 2 * (n / static_cast<double>(group.together) - 1) * cluster.fabric.network_latency_s;
  }
  return {latency, factor / rate, nullptr};
}

}  // namespace

ExchangeCost all_reduce_cost(const ClusterSpec& cluster, const Placement& group,
                             double network_share) {
  ExchangeCost cost = ring_cost(cluster, group, network_share);
  cost.curve = find_curve(cluster, group.size, group.inside(), Collective::kAllReduce);
  return cost;
}

double ExchangeCost::seconds(double bytes) const {
  return curve != nullptr ? curve_time_s(*curve, bytes, nullptr) : latency_s + s_per_byte * bytes;
}

ExchangeCost all_gather_cost(const ClusterSpec& cluster, const Placement& group,
                             double network_share) {
  const ExchangeCost both = ring_cost(cluster, group, network_share);
  return {both.latency_s / 2, both.s_per_byte / 2,
          find_curve(cluster, group.size, group.inside(), Collective::kAllGather)};
}

ExchangeCost all_to_all_cost(const ClusterSpec& cluster, const Placement& group,
                             double network_share, double crossing) {
  if (group.size <= 1) return {};
  const auto n = static_cast<double>(group.size);
  const auto near = static_cast<double>(group.together);
  const double inside = (near - 1) / n / scale_up_bandwidth(cluster, group.together);
  if (group.inside()) return {scale_up_latency(cluster, group.together) / 2, inside, nullptr};
  const double outside = crossing * (n - near) / n * cluster.oversubscription /
                         (network_share * cluster.inter_node.bandwidth_bytes_per_s);
  return {cluster.fabric.network_latency_s, std::max(inside, outside), nullptr};
}

}  // namespace nqd::planner
