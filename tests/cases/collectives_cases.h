// The cases that every backend must pass, written once: collectives/local runs them on threads,
// tests/mpi under mpirun. All expected values are exact.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator.h"

namespace nqd::collectives {

struct CaseReport {
  int checks = 0;
  std::vector<std::string> failures;  // of this rank, at most a handful kept
};

// Collective. Runs every case on `world`, whatever its size. `pulls`: whether ranks can read each
// other's private memory there; `library`: whether processes there have a library of collectives.
CaseReport run_collectives_cases(Communicator& world, bool pulls = true, bool library = true);

}  // namespace nqd::collectives
