// Inputs that differ by rank and element, and their exact reductions.
#pragma once

#include <cstddef>
#include <span>
#include <vector>

#include "base/dtype.h"
#include "collectives/shared/shared_buffer.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Element values are small whole numbers: their sums and products over 8 ranks are exact in every
// element type (bfloat16 holds whole numbers up to 256).
double input_value(ReduceOp op, std::size_t rank, std::size_t element);
// The reduction over `ranks` ranks as it is stored in `type` (uint8 wraps, averages are rounded).
double expected_value(ReduceOp op, std::size_t ranks, std::size_t element, DType type);

// Where a vector lies: in memory of this process alone, or in a SharedBuffer.
enum class Memory { kPrivate, kShared };

// Vectors of any element type, by value.
class Values {
 public:
  Values(DType type, std::size_t count, Memory memory = Memory::kPrivate);
  std::span<std::byte> bytes() { return bytes_; }
  std::span<const std::byte> bytes() const { return bytes_; }
  std::size_t count() const { return bytes_.size() / size_bytes(type_); }
  bool operator==(const Values& other) const;
  DType type() const { return type_; }
  void set(std::size_t index, double value);
  double get(std::size_t index) const;

 private:
  DType type_;
  std::vector<std::byte> private_;
  SharedBuffer shared_;
  std::span<std::byte> bytes_;
};

// Fills elements [0, count) with the inputs of `rank`, the first being element `offset`.
void fill_input(Values& values, ReduceOp op, std::size_t rank, std::size_t offset = 0);

}  // namespace nqd::collectives
