#include "planner/layout/state_shape.h"

#include <bit>

#include "planner/layout/rank_units.h"
#include "planner/plan/gradient_choice.h"
#include "planner/plan/memory.h"

namespace nqd::planner {
namespace {

DType weight_type(Precision precision) {
  switch (precision) {
    case Precision::kFloat32:
      return DType::kFloat32;
    case Precision::kFloat16:
      return DType::kFloat16;
    case Precision::kBFloat16:
    case Precision::kFp8:
      return DType::kBFloat16;
  }
  return DType::kFloat32;
}

std::int64_t moments_of(OptimizerKind kind) {
  switch (kind) {
    case OptimizerKind::kAdamW:
      return 2;
    case OptimizerKind::kSgdMomentum:
      return 1;
    case OptimizerKind::kSgd:
      return 0;
  }
  return 0;
}

}  // namespace

std::int64_t StateShape::parts() const {
  if (dp == 1 || engine == Engine::kDdp) return 1;
  return engine == Engine::kHsdp ? hsdp_shard : dp;
}

std::int64_t StateShape::gradient_shards() const { return engine == Engine::kZero1 ? 1 : parts(); }

StateShape state_shape(const Config& config) {
  StateShape shape;
  shape.engine = config.parallel.engine;
  shape.dp = config.parallel.dp;
  if (shape.engine == Engine::kHsdp) shape.hsdp_shard = shard_counts(config).weights;
  shape.micro_batches = config.micro_batches();
  shape.numerics = config.numerics.mode;
  shape.weights = weight_type(config.train.precision);
  shape.moments = moments_of(config.train.optimizer.kind);
  shape.ema = config.train.ema;
  const bool saves = config.checkpoint.every > 0 || config.checkpoint.every_s > 0;
  shape.snapshot = saves && config.checkpoint.async;
  shape.bucket_bytes = config.train.bucket_bytes;
  shape.tied_ends = tied_ends_apart(config);
  const GradientChoice choice = choose_gradient_algorithm(config);
  if (choice.tuned) shape.bucket_algorithm = choice.algorithm;
  return shape;
}

AdditionOrder addition_order(const StateShape& shape, std::int64_t replica) {
  const auto shards = static_cast<std::size_t>(shape.gradient_shards());
  AdditionOrder order;
  if (shape.canonical() && !std::has_single_bit(shards)) order.per_micro_batch = shards;
  const std::size_t each = static_cast<std::size_t>(shape.micro_batches) * order.per_micro_batch;
  const auto first = static_cast<std::size_t>(replica) * each;
  order.range = {first, first + each};
  order.total = static_cast<std::size_t>(shape.replicas()) * each;
  if (shape.canonical()) order.vectors = collectives::peak_vectors(order.range, order.total);
  return order;
}

bool sums_evenly(const StateShape& shape) {
  return !shape.canonical() || shape.replicas() == 1 ||
         std::has_single_bit(addition_order(shape, 0).range.size());
}

}  // namespace nqd::planner
