// A plan as a person reads it: plain text, no colour.
#pragma once

#include <ctime>
#include <string>
#include <vector>

#include "planner/plan/plan.h"

namespace nqd::planner {

// Memory by stage and category in GB and GiB, communication by group, bubble, step time with its
// error bar, input rate, money, days, verdict and recommendation. A calibration is named, with its
// age at `now` (0: without). Ends in a newline. Diagnostics are not part of it, but for the hint of
// a failed verdict; for a plan that breaks a mesh rule only the head and the verdict are.
std::string render_plan(const Plan& plan, std::time_t now = 0);

// One line of the pass/fail table.
struct PlanVerdict {
  std::string path;
  bool loaded = true;  // false: malformed, `plan` holds only diagnostics
  Plan plan;           // diagnostics of loading and planning together
};
// "configs/a.yaml  pass  3.10 GB (2.89 GiB) of 80.00 GB …" or "fail  NQD1203 reason", the first
// error of each; then the counts. Ends in a newline.
std::string render_table(const std::vector<PlanVerdict>& verdicts);

}  // namespace nqd::planner
