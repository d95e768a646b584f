// What the entries of all importers check.
#pragma once

#include <string>
#include <string_view>

#include "planner/import/import.h"

namespace nqd::fuzz {

// An import that ends well gives a config that loads, or says what it lacks; one that does not says
// why. Megatron's arguments survive a round trip.
void import_anything(planner::ForeignFormat format, std::string_view text);

}  // namespace nqd::fuzz
