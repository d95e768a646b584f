// Two generations side by side.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/reader.h"

namespace nqd::engine {

// A config value or a part of the run's state that is not the same.
struct ValueDifference {
  std::string key;
  std::string a, b;  // "nothing" where one has none
};

struct TensorDifference {
  std::string tensor;
  Quantity quantity = Quantity::kWeights;
  std::int64_t elements = 0;  // whose bits differ
  double largest = 0;         // |a − b|; NaN where one is none
  double relative_norm = 0;   // ‖a − b‖ ÷ ‖a‖
  std::string only_in;        // "a" or "b": the other has no such tensor, or of another shape
};

struct CheckpointDifferences {
  std::vector<ValueDifference> values;
  std::vector<TensorDifference> tensors;
  bool same() const { return values.empty() && tensors.empty(); }
};

// Reads both whole, a block at a time. The time of writing, the mesh and the names of files are no
// difference. Throws what CheckpointReader::read does.
CheckpointDifferences compare_generations(const CheckpointReader& a, const CheckpointReader& b);

}  // namespace nqd::engine
