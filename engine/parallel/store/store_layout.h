// Where everything of a rank's units lies: the arithmetic that the parts of a store share.
#pragma once

#include <cstdint>
#include <vector>

#include "collectives/communicator.h"
#include "engine/device/device.h"
#include "planner/layout/rank_units.h"
#include "planner/layout/state_shape.h"

namespace nqd::engine {

// The communicators of a store; null where a group would have one rank.
struct StoreGroups {
  collectives::Communicator* dp = nullptr;  // all dp ranks; hsdp: one shard group
  // hsdp: the ranks of one place in every shard group, in the order of the groups.
  collectives::Communicator* replicas = nullptr;
  // A tied model whose ends lie on different stages: the rank with the token embedding and, second,
  // the one with the head. Null on all other stages.
  collectives::Communicator* embedding = nullptr;
  // Whether their ranks may use each other's memory: as planned, which is not where they happen to
  // reach it.
  bool dp_direct = true;
  bool replicas_direct = true;
  bool embedding_direct = true;

  bool is_direct(const collectives::Communicator* group) const {
    return group == dp ? dp_direct : group == replicas ? replicas_direct : embedding_direct;
  }
};

// Offsets in elements.
struct UnitPlace {
  std::int64_t elements = 0;  // n
  std::int64_t padded = 0;    // K·⌈n/K⌉
  std::int64_t part = 0;      // ⌈n/K⌉
  std::int64_t weights = -1;  // in the weights: of padded, or of part where they are sharded
  std::int64_t gradient = 0;  // in every gradient vector: of padded, or of part
  std::int64_t state = -1;    // in master, moments, ema: of part
  int reads = 0;              // the unit whose weights it uses: its own but for a tied head
  bool holds_weights() const { return weights >= 0; }
};

struct StoreLayout {
  // Throws Error (kUsage, NQD2050) where the groups are not those of the shape.
  StoreLayout(const planner::StateShape& shape, std::vector<planner::LocalUnit> units,
              const StoreGroups& groups, Device& device);

  std::size_t size() const { return units.size(); }
  // [begin, end) of a unit's padded elements that this rank updates.
  std::int64_t own_begin(int unit) const;
  std::int64_t own_end(int unit) const;
  // Of the index of a unit by its role; −1 where the rank has none.
  int find(planner::UnitRole role) const;

  planner::StateShape shape;
  std::vector<planner::LocalUnit> units;
  std::vector<UnitPlace> places;
  StoreGroups groups;
  Device& device;            // where all of it lies, and who works on it
  std::int64_t rank = 0;     // of dp
  std::int64_t part = 0;     // which of the K parts is its own
  std::int64_t shard = 0;    // its index among the S gradient shards
  std::int64_t replica = 0;  // among the R replicas
  // The group that replicas sum over: dp (ddp, zero1), or that of hsdp. Null for one replica.
  collectives::Communicator* summed_over = nullptr;
  std::int64_t gradient_elements = 0;  // of one vector
};

// Test only: what a store does wrong on every rank alike, to show that its tests notice.
enum class StoreFault : std::uint8_t {
  kNone,
  kSkippedSum,         // the first sum over ranks of every step is left out
  kSkippedReplicaSum,  // the first sum over replicas of every step is left out
  kSkippedTiedSum,     // the ends of a tied head on two stages keep their own gradients
  kStaleGather,        // once it has been there, the first unit is never gathered again
};

// The call that throws is a programming error of the store's user. NQD2050.
[[noreturn]] void throw_misuse(const std::string& message);

}  // namespace nqd::engine
