// Gradients of one rank: where backward writes, and what becomes of it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "base/ledger.h"
#include "collectives/communicator.h"
#include "engine/parallel/store/partial_sums.h"
#include "engine/parallel/store/reductions.h"
#include "engine/parallel/store/store_layout.h"
#include "engine/parallel/store/store_memory.h"
#include "planner/layout/buckets.h"

namespace nqd::engine {

// Where the gradients of a micro-batch go. `fresh`: nothing is there yet that they add to.
struct OpenGradient {
  float* data = nullptr;
  bool fresh = false;
};

// Which elements of a fresh gradient are zero: all, or those of tensors of one dimension and the
// padding, where the caller writes the matrices.
enum class Clearing : std::uint8_t { kAll, kVectors };

class GradientStore {
 public:
  // All must outlive it.
  GradientStore(const StoreLayout& layout, const StoreMemory& memory, MemoryLedger* ledger);

  void begin_step();
  // See UnitStore.
  OpenGradient begin(int unit, Clearing clearing);
  void end(int unit);
  void count_repeated(int unit);
  double finish_step();

  // What an open unit's micro-batch alone has added up to so far; null where it is added to those
  // before it.
  const float* leaf(int unit) const;
  void skip_first_sum_for_test();
  void skip_first_replica_sum_for_test() { replicas_.skip_first_for_test(); }
  void skip_tied_sum_for_test() { skips_tied_ = true; }

  // After finish_step: what the step's gradients of the elements that this rank updates add up to.
  float* own(int unit) const;

 private:
  struct UnitState {
    std::int64_t done = 0;  // micro-batches
    bool open = false;
    float* data = nullptr;
    std::size_t slot = 0;  // with S > 1
  };
  // A leaf that ranks sum, or have summed.
  struct Slot {
    planner::UnitRole role = planner::UnitRole::kLayer;
    float* leaf = nullptr;
    float* received = nullptr;
    int unit = -1;  // −1: free
    std::int64_t micro_batch = 0;
    bool in_place = false;  // the sum arrives where it stays
    bool started = false;
    collectives::Work work{};
  };

  const UnitPlace& place(int unit) const { return layout_.places[static_cast<std::size_t>(unit)]; }
  bool sharded() const { return layout_.shape.gradient_shards() > 1; }
  void make_slots(const StoreMemory& memory);
  void clear(int unit, float* data, Clearing clearing) const;
  OpenGradient begin_local(int unit, std::int64_t micro_batch);
  void end_local(int unit);
  void finish_micro_batch(int unit);
  float* begin_sharded(int unit);
  void start(Slot& slot);
  void keep_own_for_test(const Slot& slot, float* out) const;
  void settle(Slot& slot);
  void complete(int unit);
  void start_whole_buckets();
  void check_step() const;
  void join_ends();

  const StoreLayout& layout_;
  PartialSums sums_;
  ReplicaSums replicas_;
  std::vector<UnitState> states_;
  std::vector<Slot> slots_;
  std::map<planner::UnitRole, float*> leaves_;                  // with S = 1
  std::map<planner::UnitRole, std::vector<std::size_t>> turn_;  // slots of a role, oldest first
  std::vector<planner::Bucket> buckets_;                        // ddp
  std::vector<bool> bucket_started_;
  double waited_s_ = 0;
  bool skips_first_ = false;
  bool skips_tied_ = false;
  bool started_ = false;  // a sum of this step, with S > 1
};

}  // namespace nqd::engine
