// Persistent state of one rank as the note-book has it: a + b/N bytes a parameter.
#pragma once

#include <cstdint>
#include <optional>

#include "planner/spec.h"

namespace nqd::planner {

// replicated·Φ + sharded·Φ/shards: ddp 16Φ, zero1 4Φ + 12Φ/N, zero2 2Φ + 14Φ/N, zero3 16Φ/N for
// mixed-precision Adam; other precisions as state_bytes (planner/plan/memory.h) counts them. Whole
// parameters are not rounded up to a rank's part, as plan_memory does.
struct StateFormula {
  double replicated = 0;  // bytes a parameter on every rank
  double sharded = 0;     // bytes a parameter that `shards` ranks share
  std::int64_t shards = 1;

  double bytes(double parameters) const {
    return parameters * (replicated + sharded / static_cast<double>(shards));
  }
};

// `ranks` data-parallel ranks. hsdp shards over `shard_ranks` of them, other engines over all.
StateFormula state_formula(const TrainSpec& train, Engine engine, std::int64_t ranks,
                           std::int64_t shard_ranks);

// The fewest ranks to share the state so that it alone fits memory_bytes; nothing when what every
// rank holds does not.
std::optional<std::int64_t> min_shards(const StateFormula& formula, double parameters,
                                       double memory_bytes);

}  // namespace nqd::planner
