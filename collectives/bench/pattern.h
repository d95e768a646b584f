// Buffer contents of the verified sweep: inputs that differ by rank and element, and what a
// collective must make of them, exactly, for any number of ranks.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "collectives/types.h"

namespace nqd::collectives {

// At most 8 ranks contribute a value above the operator's neutral one to any element, so sums stay
// at or below 128 and products at or below 256: exact in every element type (a product of 256 wraps
// in uint8, as it must). Both sequences repeat after a prime number of elements.
class Pattern {
 public:
  Pattern(DType type, ReduceOp op, std::size_t ranks);

  // Fills `data`, whose first element has index `first` in the full vector, with rank's input.
  void fill_input(std::span<std::byte> data, std::size_t rank, std::size_t first) const;
  // Elements that differ from rank's input.
  std::uint64_t count_unlike_input(std::span<const std::byte> data, std::size_t rank,
                                   std::size_t first) const;
  // Elements that differ from the reduction over all ranks.
  std::uint64_t count_wrong(std::span<const std::byte> data, std::size_t first) const;

 private:
  std::vector<std::byte> input(std::size_t rank) const;
  std::vector<std::byte> encode(const std::vector<double>& values) const;
  std::uint64_t count_unlike(std::span<const std::byte> data, std::size_t first,
                             const std::vector<std::byte>& period) const;
  double value(std::size_t rank, std::size_t element) const;
  double reduced(std::size_t element) const;

  DType type_;
  ReduceOp op_;
  std::size_t ranks_;
  std::vector<std::byte> expected_;  // one period
};

}  // namespace nqd::collectives
