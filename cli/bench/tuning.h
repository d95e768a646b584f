// `nqd bench --cluster FILE`: the measured crossovers that `auto` follows.
#pragma once

#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/communicator.h"
#include "planner/spec.h"

namespace nqd::cli {

// Whether `path` is a file of `nqd calibrate`: it has a list of curves.
bool is_calibration(const std::string& path);

// Collective. Gives `world` rank 0's table, which alone counts, so that all ranks choose alike; the
// others' `crossovers` are not read. `options` say which calls are to come: rank 0 warns when it
// has crossovers and none for them, since `auto` is then the default.
void share_tuning(collectives::Communicator& world,
                  const std::vector<planner::Crossovers>& crossovers,
                  const collectives::BenchOptions& options);

}  // namespace nqd::cli
