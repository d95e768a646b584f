// A whole generation written by one process, as the ranks of a mesh would have: for another mesh,
// or of values that no run had.
#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <span>
#include <string>

#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/storage.h"
#include "planner/spec.h"

namespace nqd::engine {

// Sets elements [begin, begin + out.size()) of a tensor of the model.
using ValueFill = std::function<void(Quantity quantity, const std::string& tensor,
                                     std::int64_t begin, std::span<float> out)>;

// Writes the files of all ranks of the config's mesh, one after the other, each read back, and
// publishes them as `head` (engine/checkpoint/head.h) says; nothing stays where that fails. Memory
// is for a few blocks, whatever the model. Throws Error: kUsage NQD2085 when `root` has
// generations; those of write_shard; what `fill` throws. Precondition: the engine can run the
// config.
Manifest write_generation(Storage& storage, const std::filesystem::path& root, Manifest head,
                          const planner::Config& config, const ValueFill& fill);

}  // namespace nqd::engine
