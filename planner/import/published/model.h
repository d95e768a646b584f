// The model of a row, from its `arch` or from the published shape of the model that it names.
#pragma once

#include <string>

#include "planner/import/published/fields.h"
#include "planner/spec.h"

namespace nqd::planner::published {

// Not `sequence`. Adds to row.assumed. `problem` says why it cannot be done.
ModelSpec model_of(Fields& row, std::string& problem);

}  // namespace nqd::planner::published
