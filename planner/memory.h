// Bytes of one rank of every pipeline stage, by category.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// Part of a GPU's memory that a plan should leave free: the device context and the allocator's
// fragmentation are not counted in it.
inline constexpr double kHeadroomFraction = 0.1;

// Bytes a parameter of each kind of persistent state, before sharding.
struct StateBytes {
  double weights = 0;
  double gradients = 0;
  double master = 0;   // float32 copy of 16-bit weights
  double moments = 0;  // two float32 Adam moments
  double ema = 0;      // float32 moving average of the weights
  double total() const { return weights + gradients + master + moments + ema; }
};
// 16-bit: 2 + 2 + 4 + 8 = 16 (gradient_precision float32: 18); float32: 4 + 4 + 0 + 8 = 16; EMA
// + 4.
StateBytes state_bytes(const TrainSpec& train);

// How many data-parallel ranks share each kind; 1 = every rank holds all of it. EMA and master are
// sharded as the moments are.
struct ShardCounts {
  std::int64_t weights = 1;
  std::int64_t gradients = 1;
  std::int64_t optimizer = 1;
};
ShardCounts shard_counts(const Config& config);
// Ranks in one hsdp shard group: parallel.hsdp_shard, or default_hsdp_shard (planner/fabric.h).
std::int64_t hsdp_shard_ranks(const Config& config);

// True when nqd's own float32 DDP engine runs this config on CPU ranks: its plan is exact to the
// byte. (A cluster with a stated device peak is a GPU plan, unless its preset is cpu-host.)
bool runs_on_cpu_engine(const Config& config);

// All stages. Never throws. Persistent bytes of one rank, Φ parameters on N data-parallel ranks
// with mixed-precision Adam (2+2+4+4+4 bytes): ddp 16Φ; zero1 4Φ+12Φ/N; zero2 2Φ+14Φ/N; zero3 16Φ/N
// (gathered units are transient); hsdp as zero3, N the ranks of a shard group. Ceilings of the
// shards apart, other precisions likewise (state_bytes, shard_counts).
MemoryPlan plan_memory(const Config& config);

// The largest category of a stage ("activations").
std::string dominant_category(const StageMemory& stage);
// The stage with the largest total. There is always one.
const StageMemory& worst_stage(const MemoryPlan& plan);

// The fewest zero3 ranks whose devices of `memory_bytes` hold the state alone.
std::int64_t min_ranks_for_state(double parameters, double bytes_per_parameter,
                                 double memory_bytes);

// Notes on what the memory plan cannot say: NQD1303 (state-only model), NQD1304 (limit unknown),
// and the warning NQD1307 (fits, but with less than 10 % to spare on a GPU).
std::vector<Diagnostic> check_memory(const Config& config, const MemoryPlan& plan);

}  // namespace nqd::planner
