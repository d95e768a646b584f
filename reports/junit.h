// Findings as JUnit XML, which test dashboards read: one test case a config.
#pragma once

#include <string>
#include <vector>

#include "reports/evidence.h"

namespace nqd::reports {

// A malformed config is an <error>, a violated rule or a plan that does not fit a <failure>, both
// with all findings as text; warnings of a config that passes are its <system-out>. Ends in a
// newline.
std::string plan_junit(const std::vector<PlannedConfig>& configs);

}  // namespace nqd::reports
