// The smallest run that trains on text, as the tests of the trainer and of its guards have it.
#pragma once

#include <cstdint>
#include <string>

#include "planner/spec.h"

namespace nqd::testing {

// A dataset of the licence texts that every Debian and Ubuntu machine has: prepared at the first
// call, and removed at the end of the process.
const std::string& licence_dataset();

// Two layers of 32 on it, float32, ddp on `dp` ranks. What is not set is as by default.
planner::Config tiny_run(std::int64_t dp);

}  // namespace nqd::testing
