// Where every rank sits, as JSON.
#pragma once

#include "planner/spec.h"
#include "reports/json_writer.h"

namespace nqd::reports {

// rank_map of schemas/mesh-plan.schema.json, into the open object. Precondition: the mesh is legal.
void write_rank_map(JsonWriter& json, const planner::Config& config);

}  // namespace nqd::reports
