#include "planner/layout/state_buffers.h"

#include <algorithm>
#include <array>
#include <map>
#include <string_view>
#include <utility>

#include "collectives/types.h"
#include "planner/mesh/stages.h"

namespace nqd::planner {
namespace {

constexpr std::int64_t kFloatBytes = 4;

// The largest unit of each role and how many there are.
struct RoleUnits {
  std::int64_t elements = 0;
  std::int64_t count = 0;
};

class BufferList {
 public:
  BufferList(const StateShape& shape, const std::vector<LocalUnit>& units, std::int64_t rank)
      : shape_(shape), units_(units), rank_(rank) {}

  std::vector<StateBuffer> make() {
    add_state();
    add_gradients();
    if (shape_.shards_weights()) {
      add_by_role("gathered.", MemoryTag::kGatheredUnits, false, weight_holders(),
                  [&](std::int64_t n) {
                    return shape_.padded(n) * static_cast<std::int64_t>(size_bytes(shape_.weights));
                  });
    }
    add(std::string(kPartialSums), MemoryTag::kCommunication, exchange_bytes(), 1, false);
    return std::move(found_);
  }

 private:
  void add(const std::string& name, MemoryTag tag, std::int64_t bytes, std::int64_t count,
           bool shared) {
    if (bytes > 0 && count > 0) found_.push_back({name, tag, bytes, count, shared});
  }

  bool sharded_gradients() const { return shape_.gradient_shards() > 1; }
  std::int64_t sum(std::int64_t (StateShape::*of)(std::int64_t) const, bool weights) const {
    std::int64_t total = 0;
    for (const LocalUnit& unit : units_) {
      if (unit.holds_weights || !weights) total += (shape_.*of)(unit.elements);
    }
    return total;
  }

  void add_state() {
    const auto element = static_cast<std::int64_t>(size_bytes(shape_.weights));
    const std::int64_t held =
        shape_.shards_weights() ? sum(&StateShape::part, true) : sum(&StateShape::padded, true);
    add("weights", MemoryTag::kWeights, held * element, 1, shape_.parts() > 1);
    const std::int64_t own = sum(&StateShape::part, true) * kFloatBytes;
    if (shape_.has_master()) add("master", MemoryTag::kMaster, own, 1, false);
    add("moments", MemoryTag::kMoments, own, shape_.moments, false);
    if (shape_.ema) add("ema", MemoryTag::kEma, own, 1, false);
    if (!shape_.snapshot) return;
    add(std::string(kSnapshot), MemoryTag::kCheckpoint,
        sum(&StateShape::saved, true) * kFloatBytes * shape_.quantities(), 1, false);
  }

  void add_gradients() {
    const AdditionOrder order = addition_order(shape_, rank_ / shape_.gradient_shards());
    const std::int64_t held =
        sharded_gradients() ? sum(&StateShape::part, false) : sum(&StateShape::padded, false);
    add("gradients", MemoryTag::kGradients, held * kFloatBytes,
        static_cast<std::int64_t>(order.vectors), shape_.dp > 1 || shape_.tied_ends);
    const bool several = order.range.size() > 1;
    if (!sharded_gradients() && (!shape_.canonical() || !several)) return;
    add_by_role("leaf.", MemoryTag::kCommunication, sharded_gradients(), gradient_holders(),
                [&](std::int64_t n) { return shape_.padded(n) * kFloatBytes; });
    if (!sharded_gradients() || !several) return;
    const bool chunks = order.per_micro_batch > 1;
    add_by_role(
        "received.", MemoryTag::kCommunication, false, gradient_holders(),
        [&](std::int64_t n) { return (chunks ? shape_.padded(n) : shape_.part(n)) * kFloatBytes; });
  }

  std::map<UnitRole, RoleUnits> weight_holders() const { return by_role(true); }
  std::map<UnitRole, RoleUnits> gradient_holders() const { return by_role(false); }
  std::map<UnitRole, RoleUnits> by_role(bool weights) const {
    std::map<UnitRole, RoleUnits> roles;
    for (const LocalUnit& unit : units_) {
      if (!unit.holds_weights && weights) continue;
      RoleUnits& role = roles[unit.role];
      role.elements = std::max(role.elements, unit.elements);
      ++role.count;
    }
    return roles;
  }

  template <typename Bytes>
  void add_by_role(const std::string& prefix, MemoryTag tag, bool shared,
                   const std::map<UnitRole, RoleUnits>& roles, Bytes&& bytes) {
    // Gradients of ranks that sum nothing are added at once, so that one leaf a role will do.
    const bool overlapped = sharded_gradients();
    for (const auto& [role, of] : roles) {
      const bool twice = overlapped && role == UnitRole::kLayer;
      add(prefix + std::string(name(role)), tag, bytes(of.elements),
          std::min<std::int64_t>(twice ? 2 : 1, of.count), shared);
    }
  }

  // Scratch of canonical_all_reduce or canonical_reduce_scatter: this rank's part of every partial
  // sum of all replicas.
  std::int64_t exchange_bytes() const {
    if (sums_evenly(shape_)) return 0;
    const auto replicas = static_cast<std::size_t>(shape_.replicas());
    const auto own = static_cast<std::size_t>(rank_ / shape_.gradient_shards());
    std::size_t nodes = 0;
    for (std::size_t replica = 0; replica < replicas; ++replica) {
      const AdditionOrder order = addition_order(shape_, static_cast<std::int64_t>(replica));
      nodes += collectives::maximal_nodes(order.range, order.total).size();
    }
    std::size_t part = 0;
    const auto consider = [&](std::int64_t elements) {
      const auto count = static_cast<std::size_t>(elements);
      part = std::max(part, collectives::chunk_of(count, replicas, own).count);
    };
    if (shape_.parts() == 1) {
      for (const Bucket& bucket : unit_buckets(shape_, units_)) consider(bucket.count);
    } else {
      for (const LocalUnit& unit : units_) {
        consider(sharded_gradients() ? shape_.part(unit.elements) : shape_.padded(unit.elements));
      }
    }
    return static_cast<std::int64_t>(nodes * part) * kFloatBytes;
  }

  const StateShape& shape_;
  const std::vector<LocalUnit>& units_;
  std::int64_t rank_;
  std::vector<StateBuffer> found_;
};

}  // namespace

std::string_view name(UnitRole role) {
  switch (role) {
    case UnitRole::kTokenEmbedding:
      return "token";
    case UnitRole::kInputProjection:
      return "input";
    case UnitRole::kPositionEmbedding:
      return "position";
    case UnitRole::kLayer:
      return "layer";
    case UnitRole::kHead:
      return "head";
    case UnitRole::kTied:
      return "tied";
  }
  return "?";
}

std::vector<Bucket> unit_buckets(const StateShape& shape, const std::vector<LocalUnit>& units) {
  std::vector<TensorSpec> tensors;
  for (const LocalUnit& unit : units) {
    for (const LocalTensor& tensor : unit.tensors) {
      tensors.push_back(tensor.full);
      tensors.back().shape = tensor.shape;
    }
  }
  return gradient_buckets(tensors, shape.bucket_bytes, kFloatBytes);
}

std::vector<StateBuffer> state_buffers(const StateShape& shape, const std::vector<LocalUnit>& units,
                                       std::int64_t rank) {
  return BufferList(shape, units, rank).make();
}

std::vector<StateBuffer> state_buffers(const Config& config, std::int64_t stage,
                                       std::int64_t dp_rank, std::int64_t tp_rank) {
  return state_buffers(state_shape(config), stage_units(config, stage, tp_rank), dp_rank);
}

std::vector<LocalUnit> stage_units(const Config& config, std::int64_t stage, std::int64_t tp_rank) {
  std::vector<LocalUnit> found;
  const std::vector<ChunkLayers> chunks = chunk_layers(config);
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    if (chunks[chunk].stage != stage) continue;
    for (LocalUnit& unit : chunk_units(config, static_cast<std::int64_t>(chunk), tp_rank)) {
      found.push_back(std::move(unit));
    }
  }
  return found;
}

}  // namespace nqd::planner
