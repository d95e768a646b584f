#include "planner/fabric.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "planner/calibration.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

// A curve of nqd's own ring first: it is what the trainer calls.
const CalibratedCurve* find_curve(const ClusterSpec& cluster, const Group& group,
                                  Collective collective) {
  const bool inside = inside_node(cluster, group);
  for (std::string_view algorithm : {"ring", "library", "auto"}) {
    for (const CalibratedCurve& curve : cluster.curves) {
      if (curve.collective == name(collective) && curve.ranks == group.size &&
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

}  // namespace

Algorithm priced_algorithm(Collective collective) {
  return collective == Collective::kSendRecv ? Algorithm::kAuto : Algorithm::kRing;
}

Group tp_group(const ParallelSpec& parallel) { return {"tp", parallel.tp, 1}; }
Group pp_group(const ParallelSpec& parallel) { return {"pp", parallel.pp, parallel.tp}; }
Group dp_group(const ParallelSpec& parallel) {
  return {"dp", parallel.dp, parallel.tp * parallel.pp};
}

bool inside_node(const ClusterSpec& cluster, const Group& group) {
  return (group.size - 1) * group.stride < cluster.gpus_per_node;
}

std::int64_t ranks_in_node(const ClusterSpec& cluster, const Group& group) {
  return std::clamp<std::int64_t>(cluster.gpus_per_node / group.stride, 1,
                                  std::max<std::int64_t>(group.size, 1));
}

std::int64_t default_hsdp_shard(const ClusterSpec& cluster, const ParallelSpec& parallel) {
  std::int64_t shard = ranks_in_node(cluster, dp_group(parallel));
  while (parallel.dp % shard != 0) --shard;
  return shard;
}

CallTime call_time(const ClusterSpec& cluster, const Group& group, Collective collective,
                   double bytes) {
  CallTime time;
  if (group.size <= 1) return time;
  if (const CalibratedCurve* curve = find_curve(cluster, group, collective)) {
    time.seconds = curve_time_s(*curve, bytes, &time.extrapolated);
    return time;
  }
  const bool inside = inside_node(cluster, group);
  const LinkSpec& link = inside ? cluster.intra_node : cluster.inter_node;
  const double bandwidth =
      inside ? link.bandwidth_bytes_per_s : inter_node_bandwidth(cluster, group, collective);
  time.known = bandwidth > 0;
  if (!time.known) return time;
  time.seconds = collectives::time_s(collective, priced_algorithm(collective),
                                     static_cast<std::size_t>(group.size), bytes,
                                     {link.alpha_s, 1 / bandwidth});
  return time;
}

}  // namespace nqd::planner
