// How the planner's sentences print a share.
#pragma once

#include <string>

namespace nqd::planner {

// "42.9 %" of 0.4286.
std::string percent(double fraction);

}  // namespace nqd::planner
