// Findings as SARIF 2.1.0, which code-scanning services and editors read.
#pragma once

#include <string>
#include <vector>

#include "reports/evidence.h"

namespace nqd::reports {

// One run with a rule for every code that occurs (title and explanation of base/codes.h) and a
// result for every finding. Columns are counted in code points. Ends in a newline.
// Format: docs.oasis-open.org/sarif/sarif/v2.1.0.
std::string plan_sarif(const std::vector<PlannedConfig>& configs);

}  // namespace nqd::reports
