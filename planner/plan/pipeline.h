// A config's pipeline: the bubble, and how many micro-batches a stage holds at once.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "base/diagnostic.h"
#include "planner/plan/plan.h"
#include "planner/schedule/schedule.h"
#include "planner/spec.h"

namespace nqd::planner {

// (p−1)/(v·m+p−1): the share of a step in which a stage waits, equal stages, forward and backward
// of all micro-batches. v = 1 for gpipe and 1f1b.
double interleaved_bubble_fraction(std::int64_t stages, std::int64_t micro_batches,
                                   std::int64_t virtual_stages);

// The fewest micro-batches whose bubble is at most `fraction` in (0, 1): for v = 1 and 10 % that is
// 9(p−1).
std::int64_t micro_batches_for_bubble(std::int64_t stages, double fraction,
                                      std::int64_t virtual_stages = 1);
// The same for any schedule (planner/schedule/closed_form.h); spec.micro_batches is not read. A
// multiple of p where the schedule interleaves.
std::int64_t micro_batches_for_bubble(ScheduleSpec spec, double fraction);

// Micro-batches whose activations stage `stage` (0-based) of config holds at the peak, in units of
// a whole stage: in_flight() of planner/schedule/closed_form.h divided by v; one that is kept for
// its weight gradient counts in full. Interleaved, on stage 0, that is the 1+(p−1)/(p·v) of
// Narayanan et al. times p.
double in_flight_micro_batches(const Config& config, std::int64_t stage);

// v of the schedule: vpp when it interleaves, 2 for zb-v, else 1.
std::int64_t virtual_stages(const ParallelSpec& parallel);
// m, at least 1 also for a config that breaks the batch rule.
std::int64_t micro_batches_of(const Config& config);
// What the config asks of its pipeline. Not legal when the config breaks a mesh rule.
ScheduleSpec schedule_spec(const Config& config);

PipelinePlan plan_pipeline(const Config& config);
// NQD1302 when more than 20 % of the step is bubble, with the micro-batches that mend it: of `time`
// where it is known, else of equal stages.
std::vector<Diagnostic> check_pipeline(const Config& config, const PipelinePlan& plan,
                                       const TimePlan& time);

}  // namespace nqd::planner
