// What the threads that write beside training have in common.
#pragma once

#include <chrono>
#include <filesystem>
#include <functional>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/communicator.h"
#include "engine/checkpoint/keep.h"
#include "engine/checkpoint/storage.h"

namespace nqd::engine {

// The calling thread works when nobody else wants the core.
void yield_to_training();

// Collective. Waits until `is_ready`, which may itself wait so long at most, on all ranks: however
// long that takes, nobody looks lost meanwhile.
void wait_together(collectives::Communicator& world,
                   const std::function<bool(std::chrono::milliseconds)>& is_ready);

// Collective. attempt_together of what may take longer than ranks wait for one another.
void attempt_at_length(collectives::Communicator& world, const std::function<void()>& attempt);

// Runs `f`. What cannot be read there is a fault, no refused input: its Error gets that exit code.
void as_fault(const std::function<void()>& f);

// The generation before it is whole, and the run can go on. A lost rank is no failure of a save.
bool is_survivable(const Error& error);

// On one rank. What of `folder` the policy does not keep goes (engine/checkpoint/keep.h); a
// failure is a warning, as it costs no generation.
void prune_or_warn(Storage& storage, const std::filesystem::path& folder, const KeepPolicy& policy,
                   const std::vector<std::string>& in_use);
// On one rank, when no other writes there any more. discard_cut; a failure is a warning.
void discard_or_warn(Storage& storage, const std::filesystem::path& generation);

// Warns that `what` ("a checkpoint was not written"), once of all ranks.
void warn_of(const std::string& what, const Error& error);

}  // namespace nqd::engine
