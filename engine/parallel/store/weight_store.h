// Weights of one rank in the type that they are computed with: whole, or gathered for each use.
#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "collectives/communicator.h"
#include "engine/parallel/store/store_layout.h"
#include "engine/parallel/store/store_memory.h"

namespace nqd::engine {

class WeightStore {
 public:
  // Both must outlive it.
  WeightStore(const StoreLayout& layout, const StoreMemory& memory);

  // See UnitStore.
  const std::byte* acquire(int unit);
  void prefetch(int unit);
  void release(int unit);
  // Starts the all_gather of every unit's parts (zero1, zero2).
  void gather_parts();
  // Before weights change: waits for every gather, and forgets units that were gathered for nobody.
  void settle();

  // Of what this rank keeps of a unit that holds weights, the element `begin` of the padded unit,
  // which must lie in kept(unit).
  std::byte* kept(int unit, std::int64_t begin) const;
  // [begin, end) of the padded elements that this rank keeps: all, or its own part.
  std::int64_t kept_begin(int unit) const;
  std::int64_t kept_end(int unit) const;

  void keep_first_stale_for_test() { stale_ = true; }

  // Seconds waited since the last call.
  double take_waited_s();

 private:
  struct Slot {
    planner::UnitRole role = planner::UnitRole::kLayer;
    std::byte* data = nullptr;
    int unit = -1;  // −1: free
    int users = 0;
    bool arriving = false;
    collectives::Work work{};
  };

  const UnitPlace& place(int unit) const { return layout_.places[static_cast<std::size_t>(unit)]; }
  Slot* holding(int unit);
  // Null where all slots of the unit's role are in use; one that was gathered for nobody yet is
  // taken only when `even_unused`.
  Slot* free_for(int unit, bool even_unused);
  void start(Slot& slot, int unit);
  void finish(Slot& slot);

  const StoreLayout& layout_;
  std::byte* weights_;
  std::int64_t element_;
  std::vector<Slot> slots_;
  std::vector<collectives::Work> arriving_;  // by unit, of gather_parts
  std::vector<bool> is_arriving_;
  double waited_s_ = 0;
  bool stale_ = false;
  bool was_there_ = false;  // the first unit, where units are gathered for a use
};

}  // namespace nqd::engine
