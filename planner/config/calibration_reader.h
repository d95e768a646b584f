// The strict reader behind read_calibration, for callers that collect findings.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/calibration/calibration.h"
#include "planner/config/source.h"

namespace nqd::planner {

// Of the file format.
inline constexpr std::int64_t kCalibrationVersion = 1;

// Every finding has the code NQD1011 and its place in `source`; nothing is returned when there are
// any.
std::optional<Calibration> parse_calibration(const Source& source,
                                             std::vector<Diagnostic>& diagnostics);

}  // namespace nqd::planner
