// More of the shared cases: exchanges of parts of any length, calls that are started and waited for
// later, and vectors so long that they travel in pieces.
#pragma once

#include "tests/cases/collectives_cases.h"

namespace nqd::collectives {

// Collective. Adds to `report`.
void run_exchange_cases(Communicator& world, CaseReport& report);

}  // namespace nqd::collectives
