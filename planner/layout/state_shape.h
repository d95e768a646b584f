// How nqd's own engine divides weights, gradients and optimizer state over data-parallel ranks, and
// which rank computes which micro-batch. Planner and engine share it.
//
// N ranks are R replicas of S gradient shards, rank r·S + s. Every unit (rank_units.h) of n
// elements is cut into K equal parts of ⌈n/K⌉, zero padded at the end:
//
//                 ddp   zero1   zero2   zero3   hsdp
//   weights       n     full    full    part    part     full: K·⌈n/K⌉
//   gradients     n     full    part    part    part
//   optimizer     n     part    part    part    part
//   K             1     N       N       N       shard group
//   S             1     1       N       N       shard group
//
// Micro-batch i of a rank is leaf g = r·(m·S) + i·S + s of the step: with S > 1 each backward sums
// a whole aligned node of leaves over the ranks of a shard group, with S = 1 a rank adds its own
// first.
#pragma once

#include <cstddef>
#include <cstdint>

#include "base/dtype.h"
#include "collectives/canonical/tree.h"
#include "collectives/numerics.h"
#include "collectives/types.h"
#include "planner/spec.h"

namespace nqd::planner {

struct StateShape {
  Engine engine = Engine::kDdp;
  std::int64_t dp = 1;
  std::int64_t hsdp_shard = 1;  // ranks in one shard group of hsdp
  std::int64_t micro_batches = 1;
  collectives::Numerics numerics = collectives::Numerics::kCanonical;
  // kFloat32, or kBFloat16 or kFloat16: then with a float32 master. Gradients are float32.
  DType weights = DType::kFloat32;
  std::int64_t moments = 2;  // float32 vectors of the optimizer
  bool ema = false;
  bool snapshot = false;                   // saves write a copy of the state
  std::int64_t bucket_bytes = 25'000'000;  // ddp
  // The two ends of a tied model lie on different stages: they sum the table's gradient.
  bool tied_ends = false;
  // ddp: what sums a bucket where replicas sum evenly, as measured crossovers say
  // (planner/plan/gradient_choice.h); kAuto: as engine_algorithm says.
  collectives::Algorithm bucket_algorithm = collectives::Algorithm::kAuto;

  std::int64_t parts() const;            // K
  std::int64_t gradient_shards() const;  // S
  std::int64_t replicas() const { return dp / gradient_shards(); }
  // Weights are gathered before use.
  bool shards_weights() const {
    return parts() > 1 && (engine == Engine::kZero3 || engine == Engine::kHsdp);
  }
  bool has_master() const { return weights != DType::kFloat32; }
  // Float32 values that are saved of a parameter: the weight, moments, ema.
  std::int64_t quantities() const { return 1 + moments + (ema ? 1 : 0); }
  // Ranks that update the same elements, and how many of a unit's ⌈n/K⌉ each of them saves.
  std::int64_t savers() const { return engine == Engine::kZero1 ? 1 : replicas(); }
  std::int64_t saved(std::int64_t elements) const {
    return (part(elements) + savers() - 1) / savers();
  }
  bool canonical() const { return numerics == collectives::Numerics::kCanonical; }
  // Of a unit of `elements`: ⌈n/K⌉, and K times that.
  std::int64_t part(std::int64_t elements) const { return (elements + parts() - 1) / parts(); }
  std::int64_t padded(std::int64_t elements) const { return part(elements) * parts(); }
};
// Of nqd's own engine: precision fp8 has no place in it. Precondition: check_mesh finds no error.
StateShape state_shape(const Config& config);

// g of micro-batch `micro_batch` of dp rank `rank`.
constexpr std::int64_t leaf_index(std::int64_t gradient_shards, std::int64_t micro_batches,
                                  std::int64_t rank, std::int64_t micro_batch) {
  const std::int64_t replica = rank / gradient_shards;
  return (replica * micro_batches + micro_batch) * gradient_shards + rank % gradient_shards;
}

// What one replica adds, one after the other, before replicas are summed. A leaf is added as it is
// where S = 1; the sum of the S leaves of a micro-batch where S is a power of two (or numerics are
// fast); else, in canonical numerics, each of the S leaves (their chunks, exchanged by all_to_all).
struct AdditionOrder {
  collectives::IndexRange range;    // of this replica
  std::size_t total = 1;            // of all replicas
  std::size_t per_micro_batch = 1;  // additions
  std::size_t vectors = 1;          // partial sums kept at a time
};
AdditionOrder addition_order(const StateShape& shape, std::int64_t replica);

// The partial sums of a step are one a replica, in the order of the replicas' ranks: they are
// summed by one collective. Else canonical numerics exchanges them
// (collectives/canonical/canonical.h).
bool sums_evenly(const StateShape& shape);

}  // namespace nqd::planner
