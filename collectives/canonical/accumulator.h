// One rank's contributions to a canonical sum, added as far as the tree allows without the other
// ranks (collectives/canonical/tree.h): a binary counter of partial sums.
//
// Half-width contributions are widened to float32 when they are added; nothing is rounded to their
// type, neither here nor between ranks. Every NaN becomes the one that the machine's arithmetic
// makes (of ∞ − ∞): hardware hands on the bits of one of its operands, so that others would depend
// on who added what.
//
// Memory: peak_vectors(range, total) vectors of `count` elements (tag kCommunication), allocated
// when first needed, kept by restart(), freed with the accumulator. Time: one pass over the
// contribution, the partial sums that it completes (one on average) and the result.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "base/ledger.h"
#include "collectives/canonical/tree.h"

namespace nqd::collectives {

// Adds `contribution`, in `type`, to the first of `sums`, that to the second and so on, the sums on
// the left: the last receives the result, the others are left as they were. At least one sum, of
// float32 or float64 as Accumulator widens.
void add_through(std::span<std::byte* const> sums, std::span<const std::byte> contribution,
                 DType type);

class Accumulator {
 public:
  // Of contributions with the indices of `range` among `total`, each of `count` elements. `type`,
  // kFloat32 or kFloat64, is the type of the partial sums and of what is sent. The range may be
  // empty. Throws Error (kUsage, NQD2103) for another type, or a range outside [0, total).
  Accumulator(const IndexRange& range, std::size_t total, std::size_t count, DType type,
              MemoryLedger* ledger = nullptr);
  // Of contributions that were all added elsewhere: `sums` are maximal_nodes(range, total), in that
  // order, of `count` elements each, and stay the caller's memory. Throws as above, also for
  // another number or length of sums.
  Accumulator(const IndexRange& range, std::size_t total, std::size_t count, DType type,
              std::span<const std::span<std::byte>> sums);

  // The next contribution, in the order of indices: `count` elements of `type`, which is this
  // accumulator's type or, for float32, bfloat16 or float16. Throws Error (kUsage, NQD2103) for
  // another type or length, and for a contribution beyond the range.
  void add(std::span<const std::byte> contribution, DType type);
  // Forgets every contribution, and keeps the memory.
  void restart();

  const IndexRange& range() const { return range_; }
  std::size_t total() const { return total_; }
  std::size_t count() const { return count_; }
  DType type() const { return type_; }
  bool is_complete() const { return next_ == range_.end; }

  // The partial sums: maximal_nodes(range, total) once complete. vector(i) belongs to nodes()[i].
  const std::vector<IndexRange>& nodes() const { return nodes_; }
  std::span<const std::byte> vector(std::size_t node) const;
  std::span<std::byte> vector(std::size_t node);

 private:
  void check(std::span<const std::byte> contribution, DType type) const;
  // Stores in vector `index`, which need not exist yet.
  void put(std::size_t index, std::span<const std::byte> contribution, DType type);

  IndexRange range_;
  std::size_t total_;
  std::size_t count_;
  DType type_;
  MemoryLedger* ledger_;
  std::size_t next_;
  std::vector<IndexRange> nodes_;
  std::vector<Buffer> owned_;
  // The first nodes_.size() are theirs, the others spare.
  std::vector<std::span<std::byte>> vectors_;
};

}  // namespace nqd::collectives
