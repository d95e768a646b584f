// A canary on the ranks of a world: measured, judged, written.
#pragma once

#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "engine/canary/canary.h"

namespace nqd::cli {

// What a file of `nqd calibrate` says of healthy devices and links. Throws as
// planner::read_calibration.
engine::CanaryExpectation read_expectation(const std::string& calibration);

// Throws Error (kNo) where the host has no room for what the canary of its ranks allocates.
void check_canary_memory(const collectives::Communicator& world);

// Collective. The document of kind "canary" of a result, equal but for the process ids on all
// ranks.
std::string canary_document(collectives::Communicator& world, const engine::CanaryResult& result,
                            const std::vector<std::string>& argv, int ranks_asked);

// Collective. `nqd train --canary`: rank 0 writes `path`. Throws Error (kNo, NQD3050) that names
// every slow device and link.
void refuse_slow(collectives::Communicator& world, const engine::CanaryExpectation& expectation,
                 const std::vector<std::string>& argv, const std::string& path);

}  // namespace nqd::cli
