// Distributed data parallel: gradients are summed over the dp group in buckets, in backward order,
// while backward still computes the rest.
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "collectives/communicator.h"
#include "planner/layout/buckets.h"

namespace nqd::engine {

class DdpReducer {
 public:
  // `gradients` is the flat arena and `buckets` its cut (planner/layout/buckets.h), in completion
  // order. Both must outlive the reducer. Every rank of `dp` builds it with the same buckets.
  // `algorithm` sums them; kDirect needs the arena in a SharedBuffer.
  DdpReducer(collectives::Communicator& dp, std::span<float> gradients,
             std::vector<planner::Bucket> buckets, collectives::Algorithm algorithm);

  // Before the backward pass of a step's last micro-batch (earlier ones accumulate,
  // unsynchronised).
  void begin();
  // The gradients at and above flat offset `ready_from` are final: issues each bucket that became
  // whole. Asynchronous; called by Gpt::backward in descending order, ending with 0.
  void ready(std::int64_t ready_from);
  // Collective. Waits for all buckets; afterwards the arena holds the sum over the group. Returns
  // the seconds spent waiting: communication that backward did not hide.
  double finish();

  // Test only: leaves out bucket `index`, as a lost reduction would.
  void skip_bucket_for_test(std::size_t index) { skipped_ = static_cast<std::ptrdiff_t>(index); }

 private:
  collectives::Communicator& dp_;
  std::span<float> gradients_;
  std::vector<planner::Bucket> buckets_;
  collectives::Algorithm algorithm_;
  std::vector<collectives::Work> pending_;
  std::size_t next_ = 0;
  std::ptrdiff_t skipped_ = -1;
};

}  // namespace nqd::engine
