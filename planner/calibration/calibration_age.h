// When a calibration was measured.
#pragma once

#include <ctime>
#include <optional>
#include <string>
#include <string_view>

namespace nqd::planner {

// The latest time, "2026-11-29T14:00:00Z", in the source of a calibration (which names every
// document that was fitted with its time); empty when it has none.
std::string measured_at(std::string_view source);

// "3 days old" at `now`; empty without a time, and for one that lies ahead of `now`.
std::string age_text(std::string_view source, std::time_t now);

}  // namespace nqd::planner
