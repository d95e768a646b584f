// Every kernel call that one rank of nqd's own engine makes in a step, as its layers make them
// (engine/models/transformer/, engine/parallel/store/, engine/train/). Left out is what takes less
// than a row: the vectors of norms and biases, and the sums of losses.
//
// N rows of a micro-batch, R of the residual stream on a rank, widths those of a tp rank; q, k, f
// the widths of queries, keys and the MLP, g its gates, V the rank's vocabulary:
//
//   token embedding   lookup [N,h]; backward weight: lookup backward
//   positions         lookup [R,h]; backward weight: lookup backward
//   layer             forward: norm; (bias: copy;) forward product [N,q+2k,h], with grouped queries
//                     [N,q,h] and [N,2k,h]; rotary; attention; sliced product [N,h,q], residual;
//                     norm; copy; forward product [N,gf,h]; activation; sliced product [N,h,f],
//                     residual. (float32 in fast numerics on one tp rank without dropout adds the
//                     product where the residual is: residual first, forward product.)
//                     backward input: for each branch a copy of the stream (dropout), column sums,
//                     input product, activation or attention backward, rotary, stacked product,
//                     narrow (16 bits), norm gradient, norm backward. selective: attention before
//                     backward weight: four weight products, column sums of the biases
//   head              forward: norm; logits: forward product [N,V,h], softmax. backward input:
//                     softmax backward, stacked product [N,h,V]; norm gradient, norm backward.
//                     backward weight: weight product [V,h,N]
//   gradients         of each micro-batch whose sum is new: the layers' weight products are fresh
//                     products, and the rest is filled; add of leaves that are not the first
//   once a step       squares and update of the rank's part, narrow of 16-bit weights
#pragma once

#include <cstdint>
#include <span>
#include <vector>

#include "planner/layout/rank_units.h"
#include "planner/reference/kernels.h"
#include "planner/spec.h"

namespace nqd::planner {

// Of one unit and one micro-batch.
struct UnitWork {
  std::vector<KernelCall> forward;
  std::vector<KernelCall> backward_input;
  std::vector<KernelCall> backward_weight;
  void add(const UnitWork& other);
};

// Of one chunk of a stage, full recomputation included, all micro-batches alike: what the store of
// gradients does is spread over them. `units` are the chunk's.
UnitWork chunk_work(const Config& config, std::span<const LocalUnit> units);
// Of one of them, its gradient store and recomputation left out.
UnitWork unit_work(const Config& config, const LocalUnit& unit);

// Once a step, of all units of a stage.
std::vector<KernelCall> update_work(const Config& config, std::span<const LocalUnit> units);

// Additions to a sum that a replica makes in a step, and how many of them begin one: they only
// write.
struct Additions {
  std::int64_t all = 0;
  std::int64_t first = 0;
};
Additions additions_of(const Config& config);

}  // namespace nqd::planner
