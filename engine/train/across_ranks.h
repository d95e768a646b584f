// Small things that all ranks of a run tell each other.
#pragma once

#include <vector>

#include "collectives/communicator.h"
#include "engine/records.h"

namespace nqd::engine {

// Collective over `group`: a ring all_reduce of one double.
double sum_over(collectives::Communicator& group, double value);

// Collective over `world`. Host and process of every rank, by rank.
std::vector<RankIdentity> gather_identities(collectives::Communicator& world);

}  // namespace nqd::engine
