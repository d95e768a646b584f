// Axes of a search held at one value: --fix, or the plan that --why asks about.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/estimate/candidate.h"

namespace nqd::planner::search {

struct Fixed {
  std::optional<std::int32_t> dp, tp, pp, cp, ep, vpp, micro_batch_size;
  std::optional<Engine> engine;
  std::optional<Recompute> recompute;
  std::optional<bool> sequence_parallel;
  std::optional<Schedule> schedule;
};

// Reads "tp=8,pp=4" into `fixed`. The keys are those of a plan in the JSON document: dp, tp, pp,
// cp, ep, vpp, micro_batch_size, engine, recompute, sequence_parallel, schedule. Throws Error
// (kUsage, NQD1030) for another key or value.
void read_fixed(std::string_view text, Fixed& fixed);

// The keys that are held, in the order above; the same without one of them; the value that a
// candidate has for a key, as read_fixed reads it; both.
std::vector<std::string_view> held_keys(const Fixed& fixed);
Fixed without(Fixed fixed, std::string_view key);
std::string value_of(const Candidate& candidate, std::string_view key);
// "tp=8,pp=4".
std::string text_of(const Fixed& fixed);

// What `inner` holds, and what only `outer` holds.
Fixed combined(const Fixed& inner, const Fixed& outer);

}  // namespace nqd::planner::search
