// A plan as JSON members, for mesh-plan's document and inside a training document.
#pragma once

#include "planner/plan/plan.h"
#include "reports/json_writer.h"

namespace nqd::reports {

// mesh, memory, communication, pipeline, time, operations, calibration, parameters, mfu, hfu,
// recommendation, into the open object. Rates that the cluster does not give leave null times.
void write_plan(JsonWriter& json, const planner::Plan& plan);

}  // namespace nqd::reports
