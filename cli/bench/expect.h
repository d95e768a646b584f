// `nqd bench --expect FILE`: the rows of a sweep against thresholds.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "planner/config/expectations.h"

namespace nqd::cli {

// Adds "below-expectation" (error) for each expectation that a row misses, naming the row that
// misses it most, and "expectation-unmatched" (error) where an expectation of this sweep's
// collective, or the whole file, applies to no row.
void judge_expectations(const std::vector<planner::Expectation>& expectations,
                        const std::string& path, std::span<const collectives::BenchRow> rows,
                        std::vector<collectives::Verdict>& verdicts);

}  // namespace nqd::cli
