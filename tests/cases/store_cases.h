// A step of a unit store on every mesh: what the gradients add up to, what they cost in memory, and
// what was sent. Run by threads and by processes.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "tests/cases/store_toy.h"

namespace nqd::toy {

// The gradients of units() over `leaves` leaves by definition, whatever the mesh.
using Sums = std::map<std::string, std::vector<float>>;
const Sums& definition(std::int64_t leaves);

// Two steps and an update on a world of one.dp ranks. Throws Error (kNo) that names the case.
// Collective.
void check_case(collectives::Communicator& world, const Case& one);

}  // namespace nqd::toy
