// The mesh, batch, stages and numerics of a row.
#pragma once

#include <string>

#include "planner/import/published/fields.h"
#include "planner/import/published/platform.h"
#include "planner/spec.h"

namespace nqd::planner::published {

// What `precision` says, or what is usual, which row.assumed then says; `problem` for formats that
// the planner has none for.
Precision precision_of(Fields& row, const Platform& platform, std::string& problem);

// Fills `parallel`, `train` and the nodes of `cluster`, of a config whose model, device and
// precision are set. Adds to row.assumed; `problem` says why it cannot be done.
void read_layout(Fields& row, const Platform& platform, Config& config, std::string& problem);

}  // namespace nqd::planner::published
