// What-if questions: the same search over several values of config keys.
#pragma once

#include <string>
#include <string_view>
#include <vector>

namespace nqd::planner::search {

// One --sweep: a key of the config file and its values.
struct SweepAxis {
  std::string name;  // as asked: "nodes"
  std::string path;  // "cluster.nodes"
  std::vector<std::string> values;
};

// Reads "nodes=8,16,32". A key is a dotted path, the last part of one where no other key ends like
// it, or `nic` for the network bandwidth of a device. Throws Error (kUsage, NQD1034) for text of
// another form or a key that is ambiguous; whether a path exists is for the loader to say.
SweepAxis read_sweep(std::string_view text);

// All combinations, the last axis fastest; each is one value for every axis.
std::vector<std::vector<std::string>> sweep_points(const std::vector<SweepAxis>& axes);

}  // namespace nqd::planner::search
