#include "planner/planner.h"
#include "planner/rules/rule.h"

namespace nqd::planner {

std::vector<Diagnostic> check_mesh(const Config& config) {
  std::vector<Diagnostic> violations;
  for (const auto checks : {rules::mesh_checks(), rules::model_checks(), rules::stage_checks(),
                            rules::training_checks(), rules::sharding_checks(),
                            rules::expert_checks(), rules::numerics_checks()}) {
    for (const rules::Check check : checks) check(config, violations);
  }
  return violations;
}

}  // namespace nqd::planner
