// The planner's answer for one config.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/spec.h"

namespace nqd::planner {

// Bytes of one rank of a stage by category. Keys are the names of base/ledger.h's tags ("weights",
// "gradients", "master", "moments", "ema", "gathered_units", "activations",
// "activation_gradients", "logits", "workspace", "communication", "data").
struct StageMemory {
  std::int64_t stage = 0;
  std::map<std::string, double> categories;
  double persistent_bytes = 0;
  double transient_bytes = 0;
  double total_bytes = 0;
};

struct MemoryPlan {
  std::vector<StageMemory> stages;
  double worst_total_bytes = 0;
  double limit_bytes = 0;  // 0 = unknown
  bool fits = true;        // true when the limit is unknown
};

// Traffic of one optimizer step.
struct GroupTraffic {
  std::string group;       // "dp", "tp", "cp", "ep", "pp", "dp_shard", "embedding", …
  std::string collective;  // "all_reduce", …
  std::string algorithm;   // "ring"
  double calls = 0;
  double bytes_sent_per_rank = 0;  // the maximum over ranks, one step
  double time_s = 0;
  double exposed_s = 0;    // not hidden behind compute; at most time_s
  bool time_known = true;  // false: its link has no bandwidth, and both times are 0
};

struct PipelinePlan {
  std::int64_t micro_batches = 1;
  // Share of the step in which a stage waits, all stages equal and F = B = W: the closed form of
  // planner/schedule/. What the plan's own stages wait is TimePlan::bubble_share().
  double bubble_fraction = 0;
};

struct TimePlan {
  double compute_s = 0;
  double exposed_communication_s = 0;
  double bubble_s = 0;
  double optimizer_s = 0;
  double jitter_s = 0;  // growth with the number of nodes: stragglers
  double step_s = 0;    // 0 = the cluster's rates are unknown
  double tokens_per_s = 0;
  double samples_per_s = 0;  // sequences or pictures
  // Share of the step that is bubble, stages as unequal as they are; 0 = unknown.
  double bubble_share() const { return step_s > 0 ? bubble_s / step_s : 0; }
  // How far the step time of such a run was from its prediction, mean over the published
  // measurements of this device and software, or the calibration's largest miss; 0 = unknown.
  double error_bar_fraction = 0;
  std::string error_bar_source;  // "46 published 16-bit runs of dense models on h100-sxm"
};

// What the run asks of its surroundings. 0 = not known or not asked for.
struct OperationsPlan {
  double ingest_bytes_per_s_per_node = 0;  // token ids (4 bytes) or float32 pictures
  double cost_per_hour = 0;                // US$, all devices
  double days_to_tokens = 0;               // train.tokens at tokens_per_s
  double cost_to_tokens = 0;               // US$
};

struct Plan {
  Config config;
  std::vector<Diagnostic> diagnostics;  // warnings and rule violations, in order
  bool valid = true;                    // no errors among them (fit included)
  double parameters = 0;
  MemoryPlan memory;
  std::vector<GroupTraffic> communication;
  PipelinePlan pipeline;
  TimePlan time;
  OperationsPlan operations;
  double mfu = 0;  // never counts recomputed work; 0 = unknown
  double hfu = 0;
  std::string recommendation;  // what to use instead, or why this is right
};

}  // namespace nqd::planner
