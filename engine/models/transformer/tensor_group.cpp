#include "engine/models/transformer/tensor_group.h"

#include <algorithm>

#include "planner/layout/engine_algorithm.h"

namespace nqd::engine {

using collectives::Collective;
using collectives::ReduceOp;

void TensorGroup::maximum(std::span<float> values) {
  run({.collective = Collective::kAllReduce,
       .in = std::as_bytes(values),
       .out = std::as_writable_bytes(values),
       .type = DType::kFloat32,
       .op = ReduceOp::kMax});
}

void TensorGroup::run(const collectives::CollectiveCall& call) {
  if (tp_.size == 1) return;
  const auto numerics =
      canonical_ ? collectives::Numerics::kCanonical : collectives::Numerics::kFast;
  const std::uint64_t bytes = std::max(call.in.size(), call.out.size());
  const collectives::Algorithm algorithm =
      planner::engine_algorithm(numerics, call.collective, tp_.size, bytes, call.type,
                                tp_.direct && tp_.group->shares_memory());
  tp_.group->run(call, algorithm);
}

}  // namespace nqd::engine
