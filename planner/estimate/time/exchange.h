// Communication of a step beyond single blocks: gradients, sharded weights, stage boundaries.
#pragma once

#include "planner/estimate/candidate.h"
#include "planner/mesh/fabric.h"
#include "planner/spec.h"

namespace nqd::planner {

// The ranks of a candidate on the cluster, by group. The mesh is tp, cp, then pp and dp in the
// order of parallel.order.
struct Ranks {
  Placement gradients;         // dp · cp: hold copies of a dense weight
  Placement expert_gradients;  // hold copies of a routed expert
  Placement shards;            // zero3, hsdp: of one sharded copy
  Placement replicas;          // hsdp: copies of one shard; else a single rank
  Placement stages;
  Placement ends;  // first and last stage
};
Ranks ranks_of(const Config& config, const Candidate& candidate, std::int64_t expert_tp);

// Whether weights are gathered for every micro-batch: zero3 and hsdp, and zero2 of a runtime that
// keeps what it gathered until the backward (FSDP's SHARD_GRAD_OP).
bool gathers_weights(const Config& config, const Candidate& candidate);

// Seconds of one micro-batch's gathers and scatters of `layers` equal units, link busy.
struct ShardedPasses {
  double forward_s = 0;
  double backward_s = 0;
};
ShardedPasses sharded_passes(const Config& config, const Candidate& candidate, const Ranks& ranks,
                             double parameters, double expert_parameters, double layers);

// Seconds once a step: gradients are reduced and, under zero1 and zero2, weights gathered; hsdp
// reduces shards across copies.
double gradient_exchange_s(const Config& config, const Candidate& candidate, const Ranks& ranks,
                           double parameters, double expert_parameters);
// One reduce_scatter of all gradients where every micro-batch has one (zero2, but not fsdp2's,
// which gathers_weights); 0 elsewhere.
double eager_scatter_s(const Config& config, const Candidate& candidate, const Ranks& ranks,
                       double parameters, double expert_parameters);

// Seconds in which a tied embedding's gradient is summed over the ends of the pipeline.
double embedding_exchange_s(const Config& config, const Candidate& candidate, const Ranks& ranks,
                            double tied_elements);

// Seconds of one message of `elements` from a stage to the next.
double boundary_s(const Config& config, const Ranks& ranks, double elements);

}  // namespace nqd::planner
