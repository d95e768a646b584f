// metrics.jsonl of a run that may be writing it.
#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>

namespace nqd::engine {

// The step of the last whole line of a step; nothing while there is none.
std::optional<std::int64_t> last_step(const std::filesystem::path& metrics);
// The step behind which the run that writes there last went on; nothing when it started anew.
std::optional<std::int64_t> resumed_after(const std::filesystem::path& metrics);

}  // namespace nqd::engine
