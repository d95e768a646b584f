// A simulated pipeline for programs: JSON (schemas/simulate-pipeline.schema.json) and a trace.
#pragma once

#include <string>

#include "planner/schedule/simulate.h"

namespace nqd::cli {

struct SimulatedPipeline {
  planner::ScheduleSpec spec;
  planner::PipelineTimeline timeline;
  double closed_form_step_s = 0;
};

std::string pipeline_json(const SimulatedPipeline& result);
// Chrome's trace event format, which Perfetto opens: a thread a stage, a slice an action, a counter
// of the activations in flight a stage. Microseconds.
std::string pipeline_trace(const SimulatedPipeline& result);

}  // namespace nqd::cli
