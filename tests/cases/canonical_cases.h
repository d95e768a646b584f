// Canonical sums against a reference that one thread computes from all contributions: run on
// threads and under mpirun.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace nqd::collectives {

struct CanonicalReport {
  int sums = 0;  // compared bit by bit
  // Elements whose bits a sum from left to right would not have: that the order counts.
  std::uint64_t order_matters = 0;
  std::vector<std::string> failures;  // of this rank
};

// Collective. `cases` sums for each element type and length, of up to 40 contributions that are
// split in several ways over the ranks of `world`, each by every algorithm that can run there.
CanonicalReport run_canonical_cases(Communicator& world, std::uint64_t seed, int cases);

}  // namespace nqd::collectives
