// A simulated pipeline as text: time to the right, one row a stage.
#pragma once

#include <string>

#include "planner/schedule/simulate.h"

namespace nqd::planner {

// The timeline alone, each row at most `width` columns (at least 40 are used): `3>>` is the forward
// of micro-batch 3, `3<<` its backward (or input gradient), `3ww` its weight gradient, `.` waiting.
// With several chunks a stage a letter after the number names the chunk of the stage: `3b>`.
// Actions too short for their number are drawn without, and a last line names the width that shows
// all.
std::string render_timeline(const ScheduleSpec& spec, const PipelineTimeline& timeline, int width);

// Bubble, simulated and in closed form, and a line a stage: bubble, peak of activations in flight.
std::string render_pipeline_summary(const ScheduleSpec& spec, const PipelineTimeline& timeline,
                                    double closed_form_step_s);

}  // namespace nqd::planner
