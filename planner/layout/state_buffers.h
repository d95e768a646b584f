// The buffers of weights, gradients and optimizer state of one rank of nqd's own engine, one record
// each: the engine allocates this list at its start, and the planner adds it up.
//
//   weights            ddp n; zero1, zero2 K·⌈n/K⌉; zero3, hsdp ⌈n/K⌉ of every unit (state_shape.h)
//   master             float32 copy of 16-bit weights: ⌈n/K⌉
//   moments, ema       float32: ⌈n/K⌉
//   gradients          float32: ddp n, zero1 K·⌈n/K⌉, the others ⌈n/K⌉; as many vectors as
//                      addition_order keeps partial sums (fast: one)
//   leaf.*             the gradient of one micro-batch: with S > 1, where backward writes and ranks
//                      sum, 2 for layers, so that one is summed while the next is written, 1 for
//                      every other role of unit; with S = 1 (canonical, m > 1) 1 a role
//   received.*         with S > 1 and more than one addition a step: what is left of a leaf after
//                      ranks have summed it, or the others' chunks of it; beside each leaf buffer
//   gathered.*         zero3, hsdp: a unit's weights, 2 for layers, 1 for every other role
//   snapshot           what a rank saves of all units, where saves are asynchronous
//   partial_sums       where replicas do not sum evenly: scratch of the exchange of the largest
//   bucket
//                      or unit
#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "base/ledger.h"
#include "planner/layout/buckets.h"
#include "planner/layout/rank_units.h"
#include "planner/layout/state_shape.h"

namespace nqd::planner {

std::string_view name(UnitRole role);  // "token", "position", "layer", "head", "tied"
inline constexpr std::string_view kPartialSums = "partial_sums";
inline constexpr std::string_view kSnapshot = "snapshot";

struct StateBuffer {
  std::string name;
  MemoryTag tag = MemoryTag::kWeights;
  std::int64_t bytes = 0;  // of one; more than 0
  std::int64_t count = 1;
  bool shared = false;  // a collective's: it lies where the ranks of this host reach it
};

// Of a rank that holds `units` (all chunks of its stage, in forward order) and is `rank` of dp.
std::vector<StateBuffer> state_buffers(const StateShape& shape, const std::vector<LocalUnit>& units,
                                       std::int64_t rank);
// Of one rank of a config. Preconditions as of chunk_units.
std::vector<StateBuffer> state_buffers(const Config& config, std::int64_t stage,
                                       std::int64_t dp_rank, std::int64_t tp_rank);

// The units of a stage on one tp rank: those of its chunks in ascending order.
std::vector<LocalUnit> stage_units(const Config& config, std::int64_t stage, std::int64_t tp_rank);

// The buckets that ddp sums, over the tensors of `units` as this rank holds them, in order.
std::vector<Bucket> unit_buckets(const StateShape& shape, const std::vector<LocalUnit>& units);

}  // namespace nqd::planner
