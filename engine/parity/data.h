// Text for runs that only have to be alike.
#pragma once

#include <filesystem>

#include "planner/spec.h"

namespace nqd::engine {

// Writes a dataset of pseudo-words, drawn from train.seed, into `folder` (as prepare_dataset does)
// and returns the config with its data.path. Enough for the steps of the config, at least 64 KiB.
planner::Config with_generated_data(planner::Config config, const std::filesystem::path& folder);

}  // namespace nqd::engine
