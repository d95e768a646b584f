// Bytes of each kind of block on one rank for one micro-batch: what a candidate's mesh, micro-batch
// and recomputation decide, and its schedule and engine do not.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/estimate/candidate.h"
#include "planner/models/shape.h"
#include "planner/spec.h"

namespace nqd::planner {

struct BlockBytes {
  double kept = 0;       // activations from forward to backward
  double working = 0;    // recomputed for one backward
  double gradients = 0;  // of activations, during one backward
  double boundary = 0;   // the output, as pipeline stages pass it on
  double full_row = 0;   // rows · hidden of a whole tp group, what a gather of the sequence holds
  double context = 0;    // keys and values of other cp ranks
  double dispatch = 0;   // tokens on their way to experts and back
  double logits = 0;     // elements
  double dense = 0;      // parameters that all dp·cp ranks share
  double expert = 0;     // parameters of routed experts
};

// By kind, in the order of shape.kinds.
std::vector<BlockBytes> block_bytes(const Config& base, const ModelShape& shape,
                                    const Candidate& candidate);

}  // namespace nqd::planner
