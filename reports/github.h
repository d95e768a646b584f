// Findings as GitHub Actions workflow commands, which a pull request shows at their lines.
#pragma once

#include <string>
#include <vector>

#include "reports/evidence.h"

namespace nqd::reports {

// One line a finding: "::error file=configs/a.yaml,line=4,col=7,endColumn=9,title=NQD1203 …::…",
// "::warning" and "::notice" likewise, escaped as the runner unescapes; then a notice with the
// count of configs that pass. Ends in a newline.
// Format: docs.github.com, "Workflow commands for GitHub Actions".
std::string plan_github(const std::vector<PlannedConfig>& configs);

}  // namespace nqd::reports
