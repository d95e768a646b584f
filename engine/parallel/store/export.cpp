#include "engine/parallel/store/export.h"

#include <algorithm>
#include <cstdint>
#include <string_view>

#include "base/file.h"
#include "planner/mesh/rank_map.h"
#include "planner/mesh/stages.h"

namespace nqd::engine {
namespace {

// The part of one tensor that one rank updates.
struct TensorPart {
  const planner::LocalTensor* tensor = nullptr;
  std::int64_t local = 0;
  std::int64_t count = 0;
  int owner = 0;
};

// Of a tensor of a unit with `elements`, by tp rank and part.
std::vector<TensorPart> parts_of(const ChunkOwners& chunk, const planner::StateShape& shape,
                                 std::size_t unit, std::size_t tensor) {
  std::vector<TensorPart> parts;
  for (std::size_t tp = 0; tp < chunk.units.size(); ++tp) {
    const planner::LocalTensor& local = chunk.units[tp][unit].tensors[tensor];
    const std::int64_t each = shape.part(chunk.units[tp][unit].elements);
    for (std::size_t part = 0; part < chunk.ranks[tp].size(); ++part) {
      const std::int64_t first = static_cast<std::int64_t>(part) * each - local.offset;
      const std::int64_t begin = std::max<std::int64_t>(first, 0);
      const std::int64_t end = std::min(first + each, local.elements());
      if (begin < end) parts.push_back({&local, begin, end - begin, chunk.ranks[tp][part]});
    }
    if (local.replicated) break;
  }
  return parts;
}

std::int64_t held_elements(const TensorPart& part) {
  std::int64_t held = 0;
  for_each_piece(*part.tensor, part.local, part.count,
                 [&](std::int64_t, std::int64_t, std::int64_t count) { held += count; });
  return held;
}

int index_of(const UnitStore& store, const std::string& name) {
  const auto& units = store.units();
  const auto found =
      std::find_if(units.begin(), units.end(), [&](const auto& unit) { return unit.name == name; });
  return static_cast<int>(found - units.begin());
}

// What this rank holds of the part.
std::vector<float> own_values(const UnitStore& store, const std::string& unit, std::size_t tensor) {
  std::vector<float> values;
  const int index = index_of(store, unit);
  store.append_weights(index, store.units()[static_cast<std::size_t>(index)].tensors[tensor],
                       values);
  return values;
}

// Rank 0's side: the whole tensor from its parts.
std::vector<float> assemble(const UnitStore& store, collectives::Communicator& world,
                            const std::string& unit, std::size_t tensor,
                            const std::vector<TensorPart>& parts) {
  std::vector<float> whole(static_cast<std::size_t>(parts.front().tensor->full.elements()));
  for (const TensorPart& part : parts) {
    std::vector<float> values;
    if (part.owner == world.rank()) {
      values = own_values(store, unit, tensor);
    } else {
      values.resize(static_cast<std::size_t>(held_elements(part)));
      if (!values.empty()) world.receive(std::as_writable_bytes(std::span(values)), part.owner);
    }
    auto from = values.begin();
    for_each_piece(*part.tensor, part.local, part.count,
                   [&](std::int64_t full, std::int64_t, std::int64_t count) {
                     std::copy_n(from, count, whole.begin() + full);
                     from += count;
                   });
  }
  return whole;
}

void send_parts(const UnitStore& store, collectives::Communicator& world, const std::string& unit,
                std::size_t tensor, const std::vector<TensorPart>& parts) {
  for (const TensorPart& part : parts) {
    if (part.owner != world.rank()) continue;
    const std::vector<float> values = own_values(store, unit, tensor);
    if (!values.empty()) world.send(std::as_bytes(std::span(values)), 0);
  }
}

}  // namespace

std::vector<ChunkOwners> model_owners(const planner::Config& config) {
  const planner::RankMap map(config);
  const std::int64_t parts = planner::state_shape(config).parts();
  const std::vector<planner::ChunkLayers> chunks = planner::chunk_layers(config);
  std::vector<ChunkOwners> owners(chunks.size());
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const auto tp = static_cast<std::size_t>(config.parallel.tp);
    owners[chunk].ranks.assign(tp, std::vector<int>(static_cast<std::size_t>(parts)));
    for (std::size_t t = 0; t < tp; ++t) {
      owners[chunk].units.push_back(planner::chunk_units(config, static_cast<std::int64_t>(chunk),
                                                         static_cast<std::int64_t>(t)));
    }
    for (std::int64_t rank = 0; rank < map.ranks(); ++rank) {
      const planner::RankPlace place = map.place(rank);
      if (place.pp != chunks[chunk].stage || place.dp >= parts) continue;
      owners[chunk].ranks[static_cast<std::size_t>(place.tp)][static_cast<std::size_t>(place.dp)] =
          static_cast<int>(rank);
    }
  }
  return owners;
}

void export_tensors(const UnitStore& store, const std::vector<ChunkOwners>& owners,
                    collectives::Communicator& world,
                    const std::function<void(const planner::TensorSpec& tensor,
                                             std::span<const float> values)>& sink) {
  for (const ChunkOwners& chunk : owners) {
    const std::vector<planner::LocalUnit>& units = chunk.units.front();
    for (std::size_t unit = 0; unit < units.size(); ++unit) {
      // A tied head's table is the embedding's.
      if (units[unit].role == planner::UnitRole::kTied) continue;
      for (std::size_t tensor = 0; tensor < units[unit].tensors.size(); ++tensor) {
        const planner::TensorSpec& full = units[unit].tensors[tensor].full;
        const std::vector<TensorPart> parts = parts_of(chunk, store.shape(), unit, tensor);
        if (world.rank() != 0) {
          send_parts(store, world, units[unit].name, tensor, parts);
        } else if (parts.empty()) {
          sink(full, {});
        } else {
          sink(full, assemble(store, world, units[unit].name, tensor, parts));
        }
      }
    }
  }
}

std::string weights_sha256(const UnitStore& store, const std::vector<ChunkOwners>& owners,
                           collectives::Communicator& world) {
  Sha256 digest;
  export_tensors(store, owners, world,
                 [&](const planner::TensorSpec&, std::span<const float> values) {
                   const auto bytes = std::as_bytes(values);
                   digest.update({reinterpret_cast<const char*>(bytes.data()), bytes.size()});
                 });
  std::string hex = digest.hex();
  world.broadcast(std::as_writable_bytes(std::span(hex)), 0);
  return hex;
}

}  // namespace nqd::engine
