// How far predictions like this one were from what was measured.
#pragma once

#include <string>

#include "planner/plan/plan.h"
#include "planner/spec.h"

namespace nqd::planner {

struct ErrorBar {
  double mean_fraction = 0;     // 0 = nothing to compare with
  double largest_fraction = 0;  // of a single run
  std::int64_t runs = 0;
  std::string source;  // "46 published 16-bit runs of dense models on h100-sxm"
};

// Of step times: the shipped published runs on the config's device, with or without experts as it,
// in its precision and with its software stack; where those are fewer than five, of any stack, then
// of any precision; else nothing. Transformers alone. Judged anew by the present model, once a
// process (about 50 ms), and remembered. Thread-safe.
ErrorBar step_error_bar(const Config& config);

// Fills the error bar of a plan's step time. For a calibrated cluster that no published run stands
// for, the largest miss of its curves: of a sample, or of a size that was held out.
void add_error_bar(Plan& plan);

}  // namespace nqd::planner
