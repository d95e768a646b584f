#include "cli/simulate/pipeline_output.h"

#include <string_view>

#include "reports/chrome_trace.h"
#include "reports/envelope.h"
#include "reports/json_writer.h"

namespace nqd::cli {
namespace {

using planner::ActionKind;
using planner::TimedAction;
using reports::JsonWriter;

constexpr auto kInline = JsonWriter::Layout::kInline;

template <typename Number>
void put_by_stage(JsonWriter& json, const char* key, const SimulatedPipeline& result,
                  Number&& number) {
  json.key(key).begin_array(kInline);
  for (std::size_t stage = 0; stage < result.timeline.stages.size(); ++stage) {
    json.value(number(stage));
  }
  json.end();
}

void put_timeline(JsonWriter& json, const SimulatedPipeline& result) {
  json.key("timeline").begin_array();
  for (std::size_t stage = 0; stage < result.timeline.stages.size(); ++stage) {
    for (const TimedAction& timed : result.timeline.stages[stage].actions) {
      json.begin_object(kInline)
          .field("stage", stage)
          .field("kind", name(timed.action.kind))
          .field("micro_batch", timed.action.micro_batch)
          .field("chunk", timed.action.chunk)
          .field("start_s", timed.start_s)
          .field("end_s", timed.end_s)
          .end();
    }
  }
  json.end();
}

void put_slice(JsonWriter& json, std::size_t stage, const TimedAction& timed) {
  const std::string_view kind = name(timed.action.kind);
  json.begin_object(kInline)
      .field("name", std::string(kind) + " " + std::to_string(timed.action.micro_batch))
      .field("cat", kind)
      .field("ph", "X")
      .field("ts", timed.start_s * 1e6)
      .field("dur", (timed.end_s - timed.start_s) * 1e6)
      .field("pid", 0)
      .field("tid", stage)
      .key("args")
      .begin_object(kInline)
      .field("micro_batch", timed.action.micro_batch)
      .field("chunk", timed.action.chunk)
      .end()
      .end();
}

void put_counter(JsonWriter& json, std::size_t stage, const TimedAction& timed,
                 std::int64_t& held) {
  const ActionKind kind = timed.action.kind;
  if (kind == ActionKind::kBackwardInput) return;
  const bool forward = kind == ActionKind::kForward;
  held += forward ? 1 : -1;
  json.begin_object(kInline)
      .field("name", "in flight, stage " + std::to_string(stage))
      .field("ph", "C")
      .field("ts", (forward ? timed.start_s : timed.end_s) * 1e6)
      .field("pid", 0)
      .key("args")
      .begin_object(kInline)
      .field("chunks", held)
      .end()
      .end();
}

}  // namespace

std::string pipeline_json(const SimulatedPipeline& result) {
  const planner::PipelineTimeline& timeline = result.timeline;
  JsonWriter json;
  json.begin_object()
      .field("schema_version", reports::kSchemaVersion)
      .field("schedule", name(result.spec.schedule))
      .field("stages", result.spec.stages)
      .field("micro_batches", result.spec.micro_batches)
      .field("virtual_stages", result.spec.virtual_stages)
      .field("bubble_fraction", timeline.bubble_fraction)
      .field("closed_form_bubble_fraction", timeline.idle_share(result.closed_form_step_s))
      .field("step_s", timeline.step_s)
      .field("closed_form_step_s", result.closed_form_step_s)
      .field("makespan_s", timeline.makespan_s);
  const auto& stages = timeline.stages;
  put_by_stage(json, "busy_s", result, [&](std::size_t i) { return stages[i].busy_s; });
  put_by_stage(json, "stage_bubble_fraction", result,
               [&](std::size_t i) { return timeline.stage_bubble_fraction(i); });
  put_by_stage(json, "peak_in_flight", result,
               [&](std::size_t i) { return stages[i].peak.total(); });
  put_by_stage(json, "peak_weight_only", result,
               [&](std::size_t i) { return stages[i].peak.weight_only; });
  put_timeline(json, result);
  json.end();
  return json.take();
}

std::string pipeline_trace(const SimulatedPipeline& result) {
  JsonWriter json;
  json.begin_object().field("displayTimeUnit", "ms").key("traceEvents").begin_array();
  reports::put_track_name(json, "process_name", 0,
                          "pipeline " + std::string(name(result.spec.schedule)));
  for (std::size_t stage = 0; stage < result.timeline.stages.size(); ++stage) {
    reports::put_track_name(json, "thread_name", stage, "stage " + std::to_string(stage));
    std::int64_t held = 0;
    for (const TimedAction& timed : result.timeline.stages[stage].actions) {
      put_slice(json, stage, timed);
      put_counter(json, stage, timed, held);
    }
  }
  json.end().end();
  return json.take();
}

}  // namespace nqd::cli
