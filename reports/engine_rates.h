// Kernel rows of bench evidence to rates of nqd's own engine.
#pragma once

#include <vector>

#include "planner/spec.h"
#include "reports/evidence.h"

namespace nqd::reports {

// One entry for each numerics, precision, threads and ranks that was measured, rows of several
// documents together: a law a kernel (planner::fit_kernel), and in_place, the median of "step" ÷ Σ
// calls · p50 of its document. A document without a step leaves in_place at 1. Throws Error
// (kUsage, NQD2202) when rows of one entry are of two hosts.
std::vector<planner::EngineRates> fit_engine(const std::vector<Evidence>& evidence);

}  // namespace nqd::reports
