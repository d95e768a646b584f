// Traffic and time of one optimizer step, by group and collective. Bytes are exact: they come from
// collectives/cost.h, the function that the transports' counters are tested against.
//
// Policy, m micro-batches a step (what the engine does, or will do):
//   ddp    gradients accumulate locally; one ring all_reduce a bucket, in the last backward
//   zero1  one reduce_scatter a bucket in the last backward; one all_gather of the weights after it
//   zero2  eager: a reduce_scatter a bucket in every backward (m in all); one all_gather
//   zero3  units are gathered for every forward and every backward and freed (2m all_gathers); m
//          reduce_scatters
//   hsdp   as zero3 inside a shard group ("dp_shard"); one all_reduce of the shard across the
//          groups ("dp_replicate")
//   dp is all dp·cp ranks that hold copies of a weight; routed experts with other copies have rows
//   of their own, "expert_dp"
//   tp     a layer and micro-batch: 4 all_reduces of b·s·h (2 forward, 2 backward), 2 more when
//          recomputing; one for the embedding and one for the head. With sequence parallelism each
//          becomes an all_gather and a reduce_scatter, and backward gathers 2 inputs a layer again
//   cp     keys and values of a layer round the ring, cp − 1 messages forward and twice as many
//          backward (with their gradients); cp − 1 more when recomputing
//   ep     an expert layer and micro-batch: 4 all_to_alls of its tokens' top-k copies (there and
//          back, forward and backward), 2 more with full recomputation. With sequence parallelism
//          1/tp of them each: the ranks of a tp group dispatch their own tokens
//   pp     b·s·h across every boundary of (virtual) stages, forward and back, a micro-batch (with
//          stack.scatter_messages 1/tp of it and an all_gather in tp on arrival); a tied head adds
//          an all_reduce of the token embedding's gradient between the ends ("embedding")
// Times of nqd's own CPU engine are those of call_time; everything else is given those of TimeModel
// afterwards (price_traffic in planner/plan/time.h).
#pragma once

#include <cstdint>
#include <vector>

#include "base/diagnostic.h"
#include "collectives/cost.h"
#include "planner/layout/buckets.h"
#include "planner/mesh/stages.h"
#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

// Compute of one micro-batch on the slowest stage: what communication can hide behind. 0 = unknown,
// then everything is exposed.
struct MicroBatchTime {
  double forward_s = 0;
  double backward_s = 0;  // with the recomputed forward
};

struct CommunicationPlan {
  std::vector<GroupTraffic> traffic;  // the maximum over stages, one row a group and collective
  // Exposed seconds of a step that repeat with every micro-batch (and so stretch with the bubble),
  // and those that come once.
  double exposed_in_micro_batches_s = 0;
  double exposed_once_s = 0;
  bool times_known = true;  // false: a link with traffic has no bandwidth; its times are 0
  std::vector<Diagnostic> diagnostics;  // NQD1305, NQD1306 (of prices), NQD1309 (crossovers)
};
CommunicationPlan plan_communication(const Config& config, const MicroBatchTime& compute);

// Equal gradient buckets side by side: `buckets` of `count` elements from element `begin` on.
struct BucketRun {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t buckets = 1;
};
// The gradient buckets of a stage in the order in which backward completes them (from the end of
// the arena). A model with tensors is cut at their boundaries, one bucket a run; a "state" model,
// whose tensors are unknown, evenly: two runs at most, however many buckets there are.
std::vector<BucketRun> stage_buckets(const Config& config, const StageLayout& stage);

// `calls` equal calls of `seconds` each. The first can start when the share first_ready of the
// compute is done, the last at last_ready, those between at even distances.
struct CallRun {
  double first_ready = 0;
  double last_ready = 0;
  double calls = 1;
  double seconds = 0;
};
// Seconds of the runs that stick out beyond `compute_s`, at most all of theirs, when calls run one
// after another. Runs ascend in readiness.
double exposed_seconds(const std::vector<CallRun>& runs, double compute_s);

}  // namespace nqd::planner
