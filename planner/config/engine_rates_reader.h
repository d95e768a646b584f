// The part `engine_rates` of a calibration file.
#pragma once

#include <vector>

#include "base/diagnostic.h"
#include "planner/config/source.h"
#include "planner/config/yaml_tree.h"
#include "planner/spec.h"

namespace nqd::planner {

// Every finding has its place in `source`; what could not be read is left at its default.
std::vector<EngineRates> read_engine_rates(const YamlNode& node, const Source& source,
                                           std::vector<Diagnostic>& diagnostics);

}  // namespace nqd::planner
