// What the communicators of a mesh's groups keep for themselves on CPU ranks.
#pragma once

#include <cstdint>

#include "planner/spec.h"

namespace nqd::planner {

// Bytes of `rank` that reference_memory counts under `communication` for the scratch of its groups
// but "control": none of them is taken where a library with memory of its own (NCCL) carries their
// messages. Precondition: runs_on_reference_engine.
std::int64_t group_scratch_bytes(const Config& config, std::int64_t rank);

}  // namespace nqd::planner
