#include "cli/bench/cluster.h"

#include "planner/config/cluster_file.h"

namespace nqd::cli {

double promised_bandwidth(const std::string& cluster) {
  const planner::ClusterSpec spec = planner::read_cluster(cluster);
  return spec.inter_node.bandwidth_bytes_per_s * static_cast<double>(spec.gpus_per_node);
}

}  // namespace nqd::cli
