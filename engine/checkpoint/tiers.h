// Generations in two folders: a fast one that a run saves to, and a durable one, on storage that
// outlives the node, which complete generations are copied to.
#pragma once

#include <filesystem>
#include <vector>

#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/storage.h"

namespace nqd::engine {

// What to resume from: what find_generations finds in each folder, the newer one first, the fast
// one where they are the same. A generation that the other's run left behind is the older one,
// whatever its step. The warning of the first says what is wrong with the fast folder when it does
// not come from there. Throws Error (kUsage) of the damage when neither has a complete generation
// and one is damaged.
std::vector<FoundGeneration> find_in_tiers(const Storage& storage,
                                           const std::filesystem::path& fast,
                                           const std::filesystem::path& durable);

}  // namespace nqd::engine
