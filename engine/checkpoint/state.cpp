#include "engine/checkpoint/state.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

namespace nqd::engine {
namespace {

std::span<float> values_of(const ShardRun& run, Quantity quantity) {
  switch (quantity) {
    case Quantity::kWeights:
      return run.weights;
    case Quantity::kMoment0:
      return run.moments[0];
    case Quantity::kMoment1:
      return run.moments[1];
    case Quantity::kEma:
      return run.ema;
  }
  return {};
}

// Elements that are read at a time.
constexpr std::int64_t kBlock = 1 << 16;

// Elements of the full tensor, from `full` on, to where they belong.
void read_piece(const CheckpointReader& reader, Quantity quantity, const std::string& tensor,
                std::int64_t full, std::span<float> to, std::vector<float>& block, Device& device) {
  for (std::size_t done = 0; done < to.size(); done += block.size()) {
    const std::span<float> values =
        std::span(block).first(std::min(block.size(), to.size() - done));
    reader.read(quantity, tensor, full + static_cast<std::int64_t>(done), values);
    device.upload(to.data() + done, values.data(), values.size_bytes());
  }
}

// Of a quantity's parts, by tensor.
using PartPlaces = std::map<std::string, std::size_t>;

ShardPart& part_of(const planner::LocalTensor& tensor, Quantity quantity, PartPlaces& places,
                   std::vector<ShardPart>& parts) {
  const auto [at, added] = places.emplace(tensor.full.name, parts.size());
  if (added) parts.push_back({tensor.full.name, quantity, {}, {}});
  return parts[at->second];
}

void append_elements(const planner::LocalTensor& tensor, std::int64_t local, std::int64_t count,
                     ShardPart& part) {
  for_each_piece(tensor, local, count, [&](std::int64_t full, std::int64_t, std::int64_t n) {
    append_run(part.extents, full, n);
  });
}

}  // namespace

std::vector<Quantity> quantities_of(const planner::StateShape& shape) {
  std::vector<Quantity> found = {Quantity::kWeights};
  if (shape.moments > 0) found.push_back(Quantity::kMoment0);
  if (shape.moments > 1) found.push_back(Quantity::kMoment1);
  if (shape.ema) found.push_back(Quantity::kEma);
  return found;
}

std::vector<ShardPart> planned_parts(const planner::StateShape& shape,
                                     const std::vector<planner::LocalUnit>& units,
                                     std::int64_t dp_rank, std::int64_t tp_rank) {
  std::vector<ShardPart> parts;
  const std::vector<UnitRun> runs = saved_runs(shape, units, dp_rank, tp_rank);
  for (const Quantity quantity : quantities_of(shape)) {
    PartPlaces places;
    for (const UnitRun& run : runs) {
      const planner::LocalTensor& tensor =
          units[static_cast<std::size_t>(run.unit)].tensors[run.tensor];
      ShardPart& part = part_of(tensor, quantity, places, parts);
      append_elements(tensor, run.begin - tensor.offset, run.count, part);
    }
  }
  return parts;
}

std::vector<ShardPart> saved_parts(UnitStore& store) {
  std::vector<ShardPart> parts;
  for (const Quantity quantity : quantities_of(store.shape())) {
    PartPlaces places;
    store.for_each_saved([&](const ShardRun& run) {
      const std::span<float> values = values_of(run, quantity);
      ShardPart& part = part_of(*run.tensor, quantity, places, parts);
      append_elements(*run.tensor, run.local, static_cast<std::int64_t>(values.size()), part);
      part.values.push_back(values);
    });
  }
  return parts;
}

std::vector<ShardPart> copied_parts(UnitStore& store, std::span<float> room) {
  std::vector<ShardPart> parts = saved_parts(store);
  for (ShardPart& part : parts) {
    for (std::span<const float>& values : part.values) {
      const std::span<float> copy = room.first(values.size());
      store.device().download(copy.data(), values.data(), values.size_bytes());
      room = room.subspan(values.size());
      values = copy;
    }
  }
  return parts;
}

std::vector<ShardPart> host_parts(UnitStore& store, std::vector<float>& room) {
  std::vector<ShardPart> parts = saved_parts(store);
  if (store.device().is_host()) return parts;
  std::size_t elements = 0;
  for (const ShardPart& part : parts) {
    for (const std::span<const float>& values : part.values) elements += values.size();
  }
  room.resize(elements);
  return copied_parts(store, room);
}

void restore(UnitStore& store, const CheckpointReader& reader) {
  store.initialize(
      [&](const planner::TensorSpec& tensor, std::int64_t begin, std::span<float> out) {
        reader.read(Quantity::kWeights, tensor.name, begin, out);
      });
  std::vector<float> block(static_cast<std::size_t>(kBlock));
  for (const Quantity quantity : quantities_of(store.shape())) {
    if (quantity == Quantity::kWeights) continue;
    store.for_each_shard([&](const ShardRun& run) {
      const std::span<float> values = values_of(run, quantity);
      for_each_piece(*run.tensor, run.local, static_cast<std::int64_t>(values.size()),
                     [&](std::int64_t full, std::int64_t local, std::int64_t count) {
                       read_piece(reader, quantity, run.tensor->full.name, full,
                                  values.subspan(static_cast<std::size_t>(local - run.local),
                                                 static_cast<std::size_t>(count)),
                                  block, store.device());
                     });
    });
  }
}

}  // namespace nqd::engine
