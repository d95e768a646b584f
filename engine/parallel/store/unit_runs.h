// Which elements of its units a rank holds, updates and saves: arithmetic alone, so that a rank's
// part of a generation can be told without the rank.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <vector>

#include "planner/layout/rank_units.h"
#include "planner/layout/state_shape.h"

namespace nqd::engine {

// Neighbouring elements of one tensor of a unit. Padding is in none.
struct UnitRun {
  int unit = 0;
  std::size_t tensor = 0;  // of the unit
  std::int64_t begin = 0;  // in the padded unit
  std::int64_t count = 0;
};

// Of every unit.
std::vector<UnitRun> held_runs(const std::vector<planner::LocalUnit>& units);
// What of it rank `dp_rank` of dp updates.
std::vector<UnitRun> updated_runs(const planner::StateShape& shape,
                                  const std::vector<planner::LocalUnit>& units,
                                  std::int64_t dp_rank);
// What of that it saves: over all ranks of the world each element of the model once. Copies share
// the work. `units` are those of tp rank `tp_rank`.
std::vector<UnitRun> saved_runs(const planner::StateShape& shape,
                                const std::vector<planner::LocalUnit>& units, std::int64_t dp_rank,
                                std::int64_t tp_rank);

// Whether tp rank `tp_rank` speaks for the tensor: one of all ranks that hold the same elements.
bool speaks_for(const planner::LocalUnit& unit, const planner::LocalTensor& tensor,
                std::int64_t tp_rank);

// Calls f(full, local, count) for the pieces of [local, local + count) of a local tensor: indices
// in the full tensor and in the local one.
void for_each_piece(
    const planner::LocalTensor& tensor, std::int64_t local, std::int64_t count,
    const std::function<void(std::int64_t full, std::int64_t local, std::int64_t count)>& f);

}  // namespace nqd::engine
