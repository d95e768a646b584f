// Which rank of a group holds which contributions of a canonical sum: made once, used by every sum
// that is split in the same way.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "collectives/canonical/tree.h"

namespace nqd::collectives {

class Communicator;

class ContributionLayout {
 public:
  // ranges[r] are the contributions of rank r: together 0 … total−1, each once, in any order of the
  // ranks; a range may be empty. Throws Error (kUsage, NQD2103) where they are not that.
  explicit ContributionLayout(std::vector<IndexRange> ranges);

  std::size_t ranks() const { return ranges_.size(); }
  std::size_t total() const { return total_; }
  const IndexRange& range(std::size_t rank) const { return ranges_[rank]; }
  // What the rank has left to give once it has added its own contributions.
  std::span<const IndexRange> nodes(std::size_t rank) const { return nodes_[rank]; }
  // Nodes of the rank that has most, and of the one that has fewest.
  std::size_t most_nodes() const;
  std::size_t fewest_nodes() const;
  std::size_t all_nodes() const;
  // Every rank holds one node, and the tree above these is the tree over the ranks
  // (collectives/reduce_tree.h): ranges in the order of ranks, of one power of two, the last one
  // perhaps shorter.
  bool is_even() const;

 private:
  std::vector<IndexRange> ranges_;
  std::size_t total_ = 0;
  std::vector<std::vector<IndexRange>> nodes_;
};

// Collective. Every rank tells its range: 16 bytes of control (an all_gather). Throws NQD2103, on
// all ranks alike, as the constructor does.
ContributionLayout agree_layout(Communicator& world, const IndexRange& mine);

}  // namespace nqd::collectives
