// What a cluster file promises of the network between nodes.
#pragma once

#include <string>

namespace nqd::cli {

// Bytes a second that the adapters of one node carry together (inter_node bandwidth of a device
// times the devices of a node); 0 when the cluster says nothing of its network. `cluster` is the
// name of a cluster preset ("dgx-h100"), a config file with a `cluster` section, or a file that
// holds the keys of such a section alone, as the presets do. Throws Error (kUsage, NQD2104) for
// anything else.
double promised_bandwidth(const std::string& cluster);

}  // namespace nqd::cli
