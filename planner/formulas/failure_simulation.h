// Runs with saves and failures, played through: what the formulas of resilience.h are checked by,
// and what they cannot say (failures that come in bursts).
#pragma once

#include <cstdint>

#include "planner/formulas/resilience.h"

namespace nqd::planner {

struct FailureTrace {
  // Of the Weibull distribution of times between failures: 1 is exponential; below, failures follow
  // one another more closely, as logs of large machines show (0.7 to 0.8: Schroeder and Gibson, "A
  // large-scale study of failures in high-performance computing systems", DSN 2006).
  double shape = 1;
  std::uint64_t seed = 1;
};

struct SimulatedRuns {
  double goodput_fraction = 0;  // the useful work of all runs by the time that they took
  double standard_error = 0;    // of that, to first order
  double failures = 0;          // of a run, mean
};

// `runs` runs of `work_s` seconds of useful work each. A failure loses what came after the last
// save and is followed by R, which the next one may cut short. A run ends with a save. The same
// numbers for the same seed. Precondition: interval and mtbf above 0.
SimulatedRuns simulate_failures(const Resilience& resilience, const FailureTrace& trace,
                                double work_s, int runs);

}  // namespace nqd::planner
