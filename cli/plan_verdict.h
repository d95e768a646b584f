// The plan of a config, for a table or a document.
#pragma once

#include <string>

#include "planner/config/config.h"
#include "planner/plan/plan_text.h"

namespace nqd::cli {

// With all findings; of a config that did not load these alone.
planner::PlanVerdict plan_verdict(const planner::LoadedConfig& loaded, const std::string& path);

}  // namespace nqd::cli
