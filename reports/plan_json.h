// A plan as JSON members, for mesh-plan's document and inside a training document.
#pragma once

#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/plan/plan.h"
#include "reports/json_writer.h"

namespace nqd::reports {

// mesh, memory, communication, pipeline, time, operations, calibration, parameters, mfu, hfu,
// recommendation, into the open object. Rates that the cluster does not give leave null times.
void write_plan(JsonWriter& json, const planner::Plan& plan);

// What a command with --json prints when there is no result: {"schema_version", "diagnostics"},
// each as in mesh-plan's document; schemas/failure.schema.json.
std::string failure_json(const std::vector<Diagnostic>& diagnostics);

}  // namespace nqd::reports
