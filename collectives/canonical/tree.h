// The one tree in which contributions are added, so that a sum has the same bits whatever rank
// computed which of them.
//
// The contributions of a sum have global indices 0 … total−1. A node of level k covers the indices
// [j·2^k, (j+1)·2^k) as far as they exist. A node of level 0 is a contribution as it is; one above
// is its left child plus its right child, in this order; where no right child exists (the ragged
// end of a total that is no power of two), it is its left child unchanged. The sum is the node that
// covers all. So the tree is a function of `total` alone: it knows no ranks, and it never adds a
// zero for what is missing.
//
// A node is named by the indices that it covers; two levels with the same indices are the same
// value, hence one node.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

namespace nqd::collectives {

// Global indices [begin, end).
struct IndexRange {
  std::size_t begin = 0;
  std::size_t end = 0;

  std::size_t size() const { return end - begin; }
  bool empty() const { return begin == end; }
  bool operator==(const IndexRange&) const = default;
};

// Whether `left` and `right`, both nodes of the tree over `total` contributions, are the two
// children of one node.
bool are_siblings(const IndexRange& left, const IndexRange& right, std::size_t total);

// The fewest nodes that cover `range` exactly, ascending: what is left of a contiguous range when
// everything has been added that can be added without its neighbours. At most 2·log2(size) of them;
// one when the range is aligned (2^k indices from a multiple of 2^k on, or up to `total`).
std::vector<IndexRange> maximal_nodes(const IndexRange& range, std::size_t total);

// Vectors that an accumulator of `range` holds at most at a time: k for 2^k aligned contributions
// (1 for one), up to about twice log2 of the size for others.
std::size_t peak_vectors(const IndexRange& range, std::size_t total);

// One addition: vector `into` += vector `from`, by index in the list of nodes.
struct Merge {
  std::size_t into = 0;
  std::size_t from = 0;
};
// The additions, in order, that turn the adjacent nodes that cover [0, total) into the sum. The
// last one's `into` is the first node.
std::vector<Merge> merges(std::span<const IndexRange> nodes, std::size_t total);

}  // namespace nqd::collectives
