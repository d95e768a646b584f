#include "planner/formulas/state.h"

#include <algorithm>
#include <cmath>

#include "planner/plan/memory.h"

namespace nqd::planner {

StateFormula state_formula(const TrainSpec& train, Engine engine, std::int64_t ranks,
                           std::int64_t shard_ranks) {
  Config config;
  config.train = train;
  config.parallel.engine = engine;
  config.parallel.dp = ranks;
  config.parallel.hsdp_shard = shard_ranks;
  const StateBytes state = state_bytes(train);
  const ShardCounts shards = shard_counts(config);
  StateFormula formula;
  formula.shards = std::max({shards.weights, shards.gradients, shards.optimizer});
  const auto add = [&](double bytes, std::int64_t count) {
    (count > 1 ? formula.sharded : formula.replicated) += bytes;
  };
  add(state.weights, shards.weights);
  add(state.gradients, shards.gradients);
  add(state.total() - state.weights - state.gradients, shards.optimizer);
  return formula;
}

std::optional<std::int64_t> min_shards(const StateFormula& formula, double parameters,
                                       double memory_bytes) {
  const double room = memory_bytes - formula.replicated * parameters;
  const double shared = formula.sharded * parameters;
  if (shared <= 0) return room >= 0 ? std::optional<std::int64_t>(1) : std::nullopt;
  // 2^40 ranks would share less than a byte of any model: no number of ranks helps.
  if (room * 0x1p40 < shared) return std::nullopt;
  return std::max<std::int64_t>(1, static_cast<std::int64_t>(std::ceil(shared / room)));
}

}  // namespace nqd::planner
