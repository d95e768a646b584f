// `nqd checkpoint inspect`: what a generation holds, and which rank wrote what.
#pragma once

#include <vector>

#include "engine/checkpoint/reader.h"
#include "planner/mesh/rank_map.h"

namespace nqd::cli {

// Of the rank that wrote each file. Empty where the config does not say: it is no longer valid, or
// its mesh has another number of ranks than the generation has files.
std::vector<planner::RankPlace> writers_of(const engine::Manifest& manifest);

// Prints its step, mesh and size and the tensors, or (`ranks`) the files, on stdout; with `json`
// all of it.
void inspect(const engine::CheckpointReader& reader, bool ranks, bool json);

}  // namespace nqd::cli
