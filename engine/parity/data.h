// Data for runs that only have to be alike.
#pragma once

#include <filesystem>

#include "planner/spec.h"

namespace nqd::engine {

// Writes a dataset drawn from train.seed into `folder` and returns the config with its data.path:
// pseudo-words (as prepare_dataset does), enough for the steps of the config, at least 64 KiB; for
// a time-series encoder synthetic fields with crops, twice as many as the steps take.
planner::Config with_generated_data(planner::Config config, const std::filesystem::path& folder);

}  // namespace nqd::engine
