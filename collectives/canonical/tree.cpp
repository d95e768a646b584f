#include "collectives/canonical/tree.h"

#include <algorithm>
#include <bit>

namespace nqd::collectives {
namespace {

// Appends the maximal nodes of `range` below `node`.
void cover(const IndexRange& node, const IndexRange& range, std::vector<IndexRange>& found) {
  if (node.end <= range.begin || range.end <= node.begin) return;
  if (range.begin <= node.begin && node.end <= range.end) {
    found.push_back(node);
    return;
  }
  const std::size_t middle = node.begin + std::bit_floor(node.size() - 1);
  cover({node.begin, middle}, range, found);
  cover({middle, node.end}, range, found);
}

}  // namespace

bool are_siblings(const IndexRange& left, const IndexRange& right, std::size_t total) {
  const std::size_t half = left.size();
  return left.end == right.begin && std::has_single_bit(half) && left.begin % (2 * half) == 0 &&
         right.end == std::min(right.begin + half, total);
}

std::vector<IndexRange> maximal_nodes(const IndexRange& range, std::size_t total) {
  std::vector<IndexRange> found;
  if (!range.empty()) cover({0, total}, range, found);
  return found;
}

std::size_t peak_vectors(const IndexRange& range, std::size_t total) {
  std::vector<IndexRange> held;
  std::size_t peak = 0;
  for (std::size_t index = range.begin; index < range.end; ++index) {
    IndexRange node{index, index + 1};
    // A contribution whose left sibling is held is added to it without a vector of its own.
    while (!held.empty() && are_siblings(held.back(), node, total)) {
      node.begin = held.back().begin;
      held.pop_back();
    }
    held.push_back(node);
    peak = std::max(peak, held.size());
  }
  return peak;
}

std::vector<Merge> merges(std::span<const IndexRange> nodes, std::size_t total) {
  struct Held {
    IndexRange node;
    std::size_t index = 0;
  };
  std::vector<Merge> found;
  std::vector<Held> held;
  for (std::size_t i = 0; i < nodes.size(); ++i) {
    Held next{nodes[i], i};
    while (!held.empty() && are_siblings(held.back().node, next.node, total)) {
      found.push_back({held.back().index, next.index});
      next = {{held.back().node.begin, next.node.end}, held.back().index};
      held.pop_back();
    }
    held.push_back(next);
  }
  return found;
}

}  // namespace nqd::collectives
