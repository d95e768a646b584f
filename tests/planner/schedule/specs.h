// The legal schedules that the properties are tried on.
#pragma once

#include <vector>

#include "planner/schedule/schedule.h"

namespace nqd::planner {

inline constexpr Schedule kAllSchedules[] = {Schedule::kGPipe,       Schedule::k1F1B,
                                             Schedule::kInterleaved, Schedule::kZbH1,
                                             Schedule::kZbH2,        Schedule::kZbV};

// Every legal combination with p ≤ 9, m ≤ 3p+3 (and one long m), v ≤ 4.
inline std::vector<ScheduleSpec> legal_specs(Schedule schedule) {
  std::vector<ScheduleSpec> specs;
  const bool interleaved = schedule == Schedule::kInterleaved;
  const bool alone = schedule == Schedule::kGPipe || schedule == Schedule::k1F1B;
  for (std::int64_t p = alone ? 1 : 2; p <= 9; ++p) {
    std::vector<std::int64_t> counts = {8 * p};
    for (std::int64_t m = 1; m <= 3 * p + 3; ++m) {
      if (!interleaved || m % p == 0) counts.push_back(m);
    }
    for (const std::int64_t m : counts) {
      if (schedule == Schedule::kZbV) {
        specs.push_back({schedule, p, m, 2});
      } else {
        for (std::int64_t v = interleaved ? 2 : 1; v <= (interleaved ? 4 : 1); ++v) {
          specs.push_back({schedule, p, m, v});
        }
      }
    }
  }
  return specs;
}

}  // namespace nqd::planner
