// One run of `nqd bench COLLECTIVE`, on threads (--ranks N) or under mpirun.
#pragma once

#include "cli/bench/options.h"

namespace nqd::cli {

struct Context;

// Measures, prints and writes. Returns the exit code, the same on all ranks: kNo when a verdict is
// an error.
int run_collective_bench(const BenchFlags& flags, const Context& context);

}  // namespace nqd::cli
