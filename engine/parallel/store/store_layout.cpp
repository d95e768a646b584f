#include "engine/parallel/store/store_layout.h"

#include <string>
#include <utility>

#include "base/error.h"

namespace nqd::engine {
namespace {

std::int64_t size_of(const collectives::Communicator* group) {
  return group == nullptr ? 1 : group->size();
}

std::int64_t rank_in(const collectives::Communicator* group) {
  return group == nullptr ? 0 : group->rank();
}

void check_groups(const planner::StateShape& shape, const StoreGroups& groups) {
  const bool hybrid = shape.engine == planner::Engine::kHsdp && shape.dp > 1;
  const std::int64_t shard = hybrid ? shape.hsdp_shard : shape.dp;
  const std::int64_t others = hybrid ? shape.replicas() : 1;
  if (shape.dp == shard * others && size_of(groups.dp) == shard &&
      size_of(groups.replicas) == others && size_of(groups.embedding) <= 2) {
    return;
  }
  throw_misuse("groups of " + std::to_string(size_of(groups.dp)) + " and " +
               std::to_string(size_of(groups.replicas)) + " ranks were given for shards over " +
               std::to_string(shard) + " and " + std::to_string(others) + " replicas");
}

}  // namespace

void throw_misuse(const std::string& message) {
  throw Error(ExitCode::kUsage, "NQD2050", "the unit store was misused: " + message,
              "this is a fault of the program that calls it, not of the config");
}

StoreLayout::StoreLayout(const planner::StateShape& of, std::vector<planner::LocalUnit> held,
                         const StoreGroups& with, Device& on)
    : shape(of), units(std::move(held)), groups(with), device(on) {
  check_groups(shape, groups);
  const bool hybrid = shape.engine == planner::Engine::kHsdp && shape.dp > 1;
  rank = hybrid ? rank_in(groups.replicas) * shape.hsdp_shard + rank_in(groups.dp)
                : rank_in(groups.dp);
  part = rank % shape.parts();
  shard = rank % shape.gradient_shards();
  replica = rank / shape.gradient_shards();
  if (shape.replicas() > 1) summed_over = hybrid ? groups.replicas : groups.dp;

  std::int64_t weights = 0;
  std::int64_t state = 0;
  const bool sums_shards = shape.gradient_shards() > 1;
  const int table = find(planner::UnitRole::kTokenEmbedding);
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    UnitPlace place;
    place.elements = units[unit].elements;
    place.padded = shape.padded(place.elements);
    place.part = shape.part(place.elements);
    place.gradient = gradient_elements;
    gradient_elements += sums_shards ? place.part : place.padded;
    place.reads = units[unit].holds_weights ? static_cast<int>(unit) : table;
    if (units[unit].holds_weights) {
      place.weights = weights;
      place.state = state;
      weights += shape.shards_weights() ? place.part : place.padded;
      state += place.part;
    } else if (table < 0 || units[static_cast<std::size_t>(table)].elements != place.elements) {
      throw_misuse("unit " + units[unit].name + " has no weights, nor has the rank the table");
    }
    places.push_back(place);
  }
}

std::int64_t StoreLayout::own_begin(int unit) const {
  return part * places[static_cast<std::size_t>(unit)].part;
}

std::int64_t StoreLayout::own_end(int unit) const {
  return (part + 1) * places[static_cast<std::size_t>(unit)].part;
}

int StoreLayout::find(planner::UnitRole role) const {
  for (std::size_t unit = 0; unit < units.size(); ++unit) {
    if (units[unit].role == role) return static_cast<int>(unit);
  }
  return -1;
}

}  // namespace nqd::engine
