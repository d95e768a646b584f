// How a run goes on with fewer ranks than it began with.
#pragma once

#include <string>
#include <vector>

#include "cli/config_input.h"

namespace nqd::cli {

struct MeshProposal {
  int ranks = 0;
  std::string mesh;                    // "dp 2 · tp 1 · pp 1, zero1"
  std::vector<std::string> overrides;  // values of --set
};
// The mesh that the planner ranks first for the config's model and global batch on `most` ranks, or
// on the most ranks below that for which there is one that the engine runs. The micro-batch and the
// recomputation of the config stay if any mesh allows it, so that a run that goes on has the same
// bits. Throws ConfigError for a config that cannot be read, and Error (kNo, NQD1406) when not even
// one rank can run it.
MeshProposal propose_mesh(const ConfigFlags& config, int most);

// The mesh of a config as it is, in the same words.
std::string mesh_of(const ConfigFlags& config);

}  // namespace nqd::cli
