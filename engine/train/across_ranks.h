// Small things that all ranks of a run tell each other.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/records.h"

namespace nqd::engine {

// Collective over `group`: a ring all_reduce of one double.
double sum_over(collectives::Communicator& group, double value);

// Collective over `world`. Rank 0's text, of at most 1,000 bytes.
std::string of_rank_0(collectives::Communicator& world, const std::string& text);

// Collective over `world`. Host, process and device of every rank, by rank; `device` is this one's.
std::vector<RankIdentity> gather_identities(collectives::Communicator& world,
                                            const std::string& device);

}  // namespace nqd::engine
