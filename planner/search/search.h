// Ranks every legal plan for a model, a global batch and a cluster. docs/search.md describes it.
#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "planner/estimate/time_model.h"
#include "planner/plan/plan.h"
#include "planner/search/fixed.h"
#include "planner/search/mesh_search.h"
#include "planner/search/rule.h"
#include "planner/search/score.h"

namespace nqd::planner::search {

struct SearchOptions {
  Objective objective = Objective::kStepTime;
  Fixed fixed;
  double limit_bytes = 0;   // 0 = cluster.memory_bytes; where that is 0 too, everything fits
  bool fewer_gpus = false;  // parts of the cluster as well: whole nodes, then part of one
  bool one_a_mesh = true;   // as MeshOptions
  std::size_t keep = 10;
  std::vector<Score> asked;  // count what is better than these
  int threads = 0;           // 0 = one a core; the result does not depend on it
  bool prune = true;
};

struct SearchResult {
  Found found;  // `nearest` is exact when nothing fits
  Objective objective = Objective::kStepTime;
  double limit_bytes = 0;
  double elapsed_s = 0;
  // False: the cluster lacks a rate, and bytes alone decide.
  bool time_known() const { return !found.best.empty() && found.best.front().step_s > 0; }
};

// Never throws for a config that loaded, whatever its `parallel` section says; nothing that fits is
// a result too.
SearchResult search(const Config& config, const SearchOptions& options);

// The config of a plan: with_candidate on a cluster of as many devices, the layers of uneven stages
// spelt out. It passes check_mesh when `config` does apart from its mesh.
Config config_of(const Config& config, const Candidate& candidate);

}  // namespace nqd::planner::search
