#include "cli/plan_verdict.h"

#include <iterator>
#include <utility>
#include <vector>

#include "base/diagnostic.h"
#include "cli/config_input.h"
#include "planner/planner.h"
#include "planner/validation/error_bar.h"

namespace nqd::cli {

planner::PlanVerdict plan_verdict(const planner::LoadedConfig& loaded, const std::string& path) {
  planner::PlanVerdict verdict;
  verdict.path = path;
  verdict.loaded = loaded.ok();
  verdict.plan.config = loaded.config;
  verdict.plan.diagnostics = loaded.diagnostics;
  verdict.plan.valid = loaded.ok();
  if (!loaded.ok()) return verdict;
  verdict.plan = planner::make_plan(loaded.config);
  planner::add_error_bar(verdict.plan);
  std::vector<Diagnostic> findings = plan_findings(loaded, verdict.plan);
  verdict.plan.diagnostics = loaded.diagnostics;
  std::move(findings.begin(), findings.end(), std::back_inserter(verdict.plan.diagnostics));
  return verdict;
}

}  // namespace nqd::cli
