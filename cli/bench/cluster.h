// What a cluster file promises of the network between nodes.
#pragma once

#include <string>

namespace nqd::cli {

// Bytes a second that the adapters of one node carry together (inter_node bandwidth of a device
// times the devices of a node); 0 when the cluster says nothing of its network. `cluster` and
// errors as planner::read_cluster.
double promised_bandwidth(const std::string& cluster);

}  // namespace nqd::cli
