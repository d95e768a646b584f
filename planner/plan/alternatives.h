// What to change when a plan does not fit. Every change is planned before it is named.
#pragma once

#include <string>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// A changed config that obeys the mesh rules, and how it fits.
struct Alternative {
  // Every key that changes and its new value, as the user would write it: applied to the file they
  // give `config`.
  std::vector<std::pair<std::string, std::string>> edits;
  std::string change;  // the edits in words: "parallel.engine: zero1, cluster.nodes: 8"
  Config config;
  double spare_bytes = 0;  // limit − worst stage; negative: it does not fit
};

// Changes to a plan that does not fit, nearest first: more sharding on the same devices, selective
// and full recomputation, a smaller micro-batch, sharding with recomputation when neither is
// enough, tp inside the node, more nodes under zero3 (hsdp stays hsdp), the same with
// recomputation. More nodes keep the global batch where it divides, else it grows with them. Only
// those that obey the mesh rules; also those that still do not fit.
std::vector<Alternative> alternatives(const Config& config);

// NQD1301 when the plan exceeds the limit: by how much, what dominates, and the first of the
// alternatives that fit (or the nearest, and what it lacks).
std::vector<Diagnostic> check_fit(const Config& config, const MemoryPlan& memory);

// The config with one thing changed. hsdp_shard goes with an engine that has no use for it.
Config with_engine(Config config, Engine engine);
Config with_recompute(Config config, Recompute recompute);

bool obeys_rules(const Config& config);
// Memory limit − worst stage.
double spare_bytes(const Config& config);

}  // namespace nqd::planner
