// Bytes of one rank of every pipeline stage, by category.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/estimate/candidate.h"
#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// Part of a device's memory that a plan should leave free, for what it cannot foresee.
inline constexpr double kHeadroomFraction = 0.1;

// Bytes a parameter of each kind of persistent state on the device, before sharding.
struct StateBytes {
  double weights = 0;
  double gradients = 0;
  double gradients_of_optimizer = 0;  // a float32 copy of a rank's part (DeepSpeed)
  double master = 0;                  // float32 copy of 16-bit weights; fsdp2: its only weights
  double moments = 0;  // float32: two of AdamW, one of SGD with momentum, none of SGD
  double ema = 0;      // float32 moving average of the weights
  double total() const {
    return weights + gradients + gradients_of_optimizer + master + moments + ema;
  }
};
// 16-bit: 2 + 2 + 4 + 8 = 16 (gradient_precision float32: 18); float32: 4 + 4 + 0 + 8 = 16; EMA
// + 4. fsdp2 keeps float32 shards alone: 4 (master) + 4 + 8. DeepSpeed updates from float32 copies
// of 16-bit gradients: 20. With optimizer.offload master, moments, EMA and those copies are on the
// host.
StateBytes state_bytes(const TrainSpec& train);

// How many ranks share each kind; 1 = every rank holds all of it. EMA and master are sharded as the
// moments are. Context-parallel ranks compute with the same weights, so that dp·cp ranks share
// them; routed experts, which ep·expert_tp of the tp·cp·dp ranks divide, are shared by the others.
struct ShardCounts {
  std::int64_t weights = 1;
  std::int64_t gradients = 1;
  std::int64_t optimizer = 1;
};
ShardCounts shard_counts(const Config& config);
ShardCounts shard_counts(const Config& base, const Candidate& candidate);
ShardCounts expert_shard_counts(const Config& base, const Candidate& candidate);

// All stages: nqd's own engine exactly (planner/reference/reference_plan.h), everything else by
// MemoryModel (planner/estimate/memory_model.h). Never throws. Persistent bytes of one rank, Φ
// parameters on N data-parallel ranks with mixed-precision Adam (2+2+4+4+4 bytes): ddp 16Φ; zero1
// 4Φ+12Φ/N; zero2 2Φ+14Φ/N; zero3 16Φ/N (gathered units are transient); hsdp as zero3, N the ranks
// of a shard group. Ceilings of the shards apart, other precisions likewise (state_bytes,
// shard_counts).
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
