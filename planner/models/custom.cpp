#include <algorithm>

#include "planner/models/families.h"

namespace nqd::planner {

// Bytes are as given, whatever the precision is.
ModelShape custom_shape(const ModelSpec& model) {
  ModelShape shape;
  shape.known = true;
  for (const CustomBlock& given : model.blocks) {
    BlockShape block;
    block.name = given.name;
    block.parameters.replicated = given.parameters;
    block.extra_forward_flops = given.forward_flops;
    const double inner = std::max(0.0, given.saved_bytes - given.input_bytes);
    block.saved = {
        {"input", given.input_bytes, 1, Split::kNone, SavedTensor::Dropped::kNever},
        {"inner", inner, 1, Split::kNone, SavedTensor::Dropped::kByFull},
    };
    shape.parameters += static_cast<double>(given.count) * given.parameters;
    shape.runs.push_back({static_cast<std::int64_t>(shape.kinds.size()), given.count});
    shape.kinds.push_back(std::move(block));
  }
  return shape;
}

}  // namespace nqd::planner
