#include "engine/parallel/store/unit_runs.h"

#include "engine/parallel/store/range.h"

namespace nqd::engine {
namespace {

const planner::LocalUnit& unit_of(const std::vector<planner::LocalUnit>& units,
                                  const UnitRun& run) {
  return units[static_cast<std::size_t>(run.unit)];
}

// The ranges of a local tensor that hold something of the full one: pieces that touch are one.
std::vector<Range> held_ranges(const planner::LocalTensor& tensor) {
  std::vector<Range> held;
  for (const planner::Piece& piece : tensor.pieces) {
    if (held.empty() || held.back().end != piece.local) held.push_back({piece.local, piece.local});
    held.back().end += piece.count;
  }
  return held;
}

UnitRun cut(const UnitRun& run, const Range& to) {
  const Range part = overlap({run.begin, run.begin + run.count}, to);
  return {run.unit, run.tensor, part.begin, part.empty() ? 0 : part.end - part.begin};
}

}  // namespace

std::vector<UnitRun> held_runs(const std::vector<planner::LocalUnit>& units) {
  std::vector<UnitRun> runs;
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    const std::vector<planner::LocalTensor>& tensors = units[unit].tensors;
    for (std::size_t tensor = 0; tensor < tensors.size(); ++tensor) {
      for (const Range& held : held_ranges(tensors[tensor])) {
        runs.push_back({static_cast<int>(unit), tensor, tensors[tensor].offset + held.begin,
                        held.end - held.begin});
      }
    }
  }
  return runs;
}

std::vector<UnitRun> updated_runs(const planner::StateShape& shape,
                                  const std::vector<planner::LocalUnit>& units,
                                  std::int64_t dp_rank) {
  std::vector<UnitRun> runs;
  for (const UnitRun& held : held_runs(units)) {
    const planner::LocalUnit& unit = unit_of(units, held);
    if (!unit.holds_weights) continue;
    const std::int64_t begin = dp_rank % shape.parts() * shape.part(unit.elements);
    const UnitRun own = cut(held, {begin, begin + shape.part(unit.elements)});
    if (own.count > 0) runs.push_back(own);
  }
  return runs;
}

std::vector<UnitRun> saved_runs(const planner::StateShape& shape,
                                const std::vector<planner::LocalUnit>& units, std::int64_t dp_rank,
                                std::int64_t tp_rank) {
  const std::int64_t copy = shape.savers() > 1 ? dp_rank / shape.gradient_shards() : 0;
  std::vector<UnitRun> runs;
  for (const UnitRun& own : updated_runs(shape, units, dp_rank)) {
    const planner::LocalUnit& unit = unit_of(units, own);
    if (!speaks_for(unit, unit.tensors[own.tensor], tp_rank)) continue;
    const std::int64_t piece = shape.saved(unit.elements);
    const std::int64_t begin = dp_rank % shape.parts() * shape.part(unit.elements) + copy * piece;
    const UnitRun saved = cut(own, {begin, begin + piece});
    if (saved.count > 0) runs.push_back(saved);
  }
  return runs;
}

bool speaks_for(const planner::LocalUnit& unit, const planner::LocalTensor& tensor,
                std::int64_t tp_rank) {
  return unit.role != planner::UnitRole::kTied && (!tensor.replicated || tp_rank == 0);
}

void for_each_piece(
    const planner::LocalTensor& tensor, std::int64_t local, std::int64_t count,
    const std::function<void(std::int64_t full, std::int64_t local, std::int64_t count)>& f) {
  const Range wanted{local, local + count};
  for (const planner::Piece& piece : tensor.pieces) {
    const Range part = overlap({piece.local, piece.local + piece.count}, wanted);
    if (!part.empty()) f(piece.full + part.begin - piece.local, part.begin, part.end - part.begin);
  }
}

}  // namespace nqd::engine
