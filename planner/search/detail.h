// A plan taken apart: where its seconds and its bytes go, and what the event simulation makes of
// it.
#pragma once

#include <optional>
#include <string>

#include "planner/estimate/time_model.h"
#include "planner/plan/plan.h"
#include "planner/search/score.h"
#include "planner/spec.h"

namespace nqd::planner::search {

struct Detail {
  Score score;
  StepTime time;
  StageMemory worst;         // the stage with the most bytes
  double limit_bytes = 0;    // 0 = unknown
  double tokens_per_s = 0;   // 0 = unknown, or a model without sequences
  double samples_per_s = 0;  // sequences or pictures
  double mfu = 0;            // of causal attention, dense peak; 0 = unknown
  double cost_per_step = 0;  // US$; 0 = no price
  // The step with its pipeline run event by event (planner/schedule/simulate.h); nothing when it
  // was not asked for, has no known times, or would take more than 10^7 actions.
  std::optional<double> simulated_step_s;
};

Detail detail_of(const Config& config, const Score& score, double limit_bytes, bool simulate);

// What binds a plan, in one sentence: the largest part of its step, and how near the limit its
// worst rank is and why.
std::string binding_text(const Detail& detail);

// "tp 8 · pp 16 · dp 128", with cp, ep and vpp where they divide anything.
std::string mesh_text(const Candidate& candidate);

}  // namespace nqd::planner::search
