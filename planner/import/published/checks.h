// Fields that are there but say nothing that a plan can have: a row with one is skipped, for what
// it measured is not what would be predicted without the field.
#pragma once

#include <string>

#include "planner/import/published/fields.h"

namespace nqd::planner::published {

// "pp is 0, which is no whole number from 1 to 16777216"; empty when every field can be read.
std::string unreadable_field(const Fields& row);

}  // namespace nqd::planner::published
