#include "engine/models/transformer/tensor_group.h"

#include <algorithm>

#include "collectives/numerics.h"

namespace nqd::engine {

using collectives::Algorithm;
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
  const bool direct = tp_.group->shares_memory();
  Algorithm algorithm = direct ? Algorithm::kDirect : Algorithm::kAuto;
  if (canonical_ && !direct) {
    const std::uint64_t bytes = std::max(call.in.size(), call.out.size());
    algorithm = collectives::canonical_algorithm(
                    call.collective, static_cast<std::size_t>(tp_.size), bytes, call.type, false)
                    .value_or(Algorithm::kAuto);
  }
  tp_.group->run(call, algorithm);
}

}  // namespace nqd::engine
