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

bool TensorGroup::leaves_out(const collectives::CollectiveCall& call) {
  const bool is_sum = call.op == ReduceOp::kSum && call.collective != Collective::kAllGather;
  if (tp_.missing_sum_for_test == 0 || !is_sum || ++sums_ % tp_.missing_sum_for_test != 0)
    return false;
  if (call.collective == Collective::kReduceScatter) {
    const auto own = call.in.begin() + static_cast<std::ptrdiff_t>(call.out.size()) * tp_.rank;
    device_->copy(call.out.data(), &*own, call.out.size());
  }
  return true;
}

void TensorGroup::run(const collectives::CollectiveCall& call) {
  if (tp_.size == 1 || leaves_out(call)) return;
  device_->before_message();
  const auto numerics =
      canonical_ ? collectives::Numerics::kCanonical : collectives::Numerics::kFast;
  const std::uint64_t bytes = std::max(call.in.size(), call.out.size());
  const collectives::Algorithm algorithm =
      planner::engine_algorithm(numerics, call.collective, tp_.size, bytes, call.type,
                                tp_.direct && tp_.group->shares_memory());
  tp_.group->run(call, algorithm);
}

}  // namespace nqd::engine
