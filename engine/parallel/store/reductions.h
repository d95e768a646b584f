// Which collective sums what, and how long a rank waited for it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/ledger.h"
#include "collectives/canonical/layout.h"
#include "collectives/communicator.h"
#include "collectives/scratch.h"
#include "engine/parallel/store/partial_sums.h"
#include "engine/parallel/store/store_layout.h"

namespace nqd::engine {

// planner::engine_algorithm on `group`, one of the layout's.
collectives::Algorithm store_algorithm(const StoreLayout& layout,
                                       const collectives::Communicator& group,
                                       collectives::Collective collective, std::uint64_t bytes);

// Waits and returns the seconds that it took.
double timed_wait(collectives::Work& work);

// Sums the replicas' gradients: all_reduce, or under zero1 reduce_scatter, in which the sum of the
// own part takes its place in the vector. Ranks call start in the same order.
class ReplicaSums {
 public:
  // Both must outlive it. The ledger counts the exchange of partial sums where they are not even.
  ReplicaSums(const StoreLayout& layout, const PartialSums& sums, MemoryLedger* ledger);

  // [offset, offset + count) has all of this replica's additions. Asynchronous where replicas sum
  // evenly; else it is done by finish.
  void start(std::int64_t offset, std::int64_t count);
  // Collective. Seconds waited.
  double finish();
  void skip_first_for_test() { skips_first_ = true; }

 private:
  struct Part {
    std::int64_t offset = 0;
    std::int64_t count = 0;
  };
  // Of a part, what receives the sum: all of it, or this rank's chunk.
  std::span<std::byte> output(const Part& part) const;
  void exchange(const Part& part);
  collectives::Algorithm algorithm(std::size_t bytes) const;

  const StoreLayout& layout_;
  const PartialSums& sums_;
  collectives::Collective collective_;
  bool even_;
  std::vector<collectives::ContributionLayout> order_;  // one, where not even
  collectives::Scratch scratch_;
  std::vector<collectives::Work> pending_;
  std::vector<Part> deferred_;
  bool skips_first_ = false;
  bool started_ = false;  // in this step
};

}  // namespace nqd::engine
