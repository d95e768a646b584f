#include "engine/parallel/store/partial_sums.h"

#include <algorithm>
#include <array>
#include <utility>

#include "collectives/canonical/tree.h"

namespace nqd::engine {

using collectives::IndexRange;

PartialSums::PartialSums(const planner::AdditionOrder& order, bool canonical,
                         std::vector<float*> vectors, Device& device)
    : order_(order), device_(device), vectors_(std::move(vectors)) {
  std::vector<IndexRange> held;
  for (std::size_t index = order.range.begin; index < order.range.end; ++index) {
    Step step;
    if (!canonical) {
      if (!steps_.empty()) step.through.push_back(0);
      steps_.push_back(step);
      continue;
    }
    IndexRange node{index, index + 1};
    while (!held.empty() && collectives::are_siblings(held.back(), node, order.total)) {
      node.begin = held.back().begin;
      held.pop_back();
      step.through.push_back(held.size());
    }
    step.kept = held.size();
    held.push_back(node);
    steps_.push_back(std::move(step));
  }
  nodes_ = std::max<std::size_t>(held.size(), 1);
}

float* PartialSums::target(std::size_t index, std::int64_t offset) const {
  return vectors_[steps_[index].kept] + offset;
}

void PartialSums::add(std::size_t index, std::int64_t offset, const float* leaf,
                      std::int64_t count) const {
  const Step& step = steps_[index];
  if (step.through.empty()) {
    device_.copy(target(index, offset), leaf, static_cast<std::size_t>(count) * sizeof(float));
    return;
  }
  // A leaf completes at most as many sums as an index has bits.
  std::array<float*, 64> sums;
  for (std::size_t i = 0; i < step.through.size(); ++i) {
    sums[i] = vectors_[step.through[i]] + offset;
  }
  device_.add_through({sums.data(), step.through.size()}, leaf, count);
}

std::span<std::byte> PartialSums::whole(std::int64_t offset, std::int64_t count) const {
  return std::as_writable_bytes(std::span(sum(offset), static_cast<std::size_t>(count)));
}

std::vector<std::span<std::byte>> PartialSums::left(std::int64_t offset, std::int64_t count) const {
  std::vector<std::span<std::byte>> found;
  for (std::size_t node = 0; node < nodes_; ++node) {
    found.push_back(std::as_writable_bytes(
        std::span(vectors_[node] + offset, static_cast<std::size_t>(count))));
  }
  return found;
}

}  // namespace nqd::engine
