// The gradient vectors of one rank: what micro-batches add up to before replicas are summed. A
// binary counter over the vectors in canonical numerics (collectives/canonical/tree.h), one running
// sum in fast.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "engine/device/device.h"
#include "planner/layout/state_shape.h"

namespace nqd::engine {

class PartialSums {
 public:
  // `vectors`: as many as order.vectors, of equal length, in memory of `device`; they stay the
  // caller's.
  PartialSums(const planner::AdditionOrder& order, bool canonical, std::vector<float*> vectors,
              Device& device);

  // Of the additions of a step, index 0 … range.size() − 1: whether this one has nothing to be
  // added to, so that it may be written where it stays.
  bool is_first(std::size_t index) const { return steps_[index].through.empty(); }
  // Where the sum that addition `index` completes stays, from element `offset` of the vectors on.
  float* target(std::size_t index, std::int64_t offset) const;
  // Adds `leaf` to elements [offset, offset + count). Every element has its additions in ascending
  // order.
  void add(std::size_t index, std::int64_t offset, const float* leaf, std::int64_t count) const;

  // After the last addition: [offset, offset + count) of every partial sum left, ascending; one
  // where this replica's sum is whole.
  std::vector<std::span<std::byte>> left(std::int64_t offset, std::int64_t count) const;
  // The first of them, which is also where the sum of all replicas goes.
  std::span<std::byte> whole(std::int64_t offset, std::int64_t count) const;
  float* sum(std::int64_t offset) const { return vectors_.front() + offset; }
  const planner::AdditionOrder& order() const { return order_; }

 private:
  struct Step {
    std::vector<std::size_t> through;  // vectors, the last of them keeps the result
    std::size_t kept = 0;
  };
  planner::AdditionOrder order_;
  Device& device_;
  std::vector<float*> vectors_;
  std::vector<Step> steps_;
  std::size_t nodes_ = 1;  // left after the last addition
};

}  // namespace nqd::engine
