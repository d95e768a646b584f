#include "planner/schedule/transfers.h"

#include <algorithm>
#include <tuple>

#include "planner/schedule/simulate.h"
#include "planner/schedule/walk.h"

namespace nqd::planner {
namespace {

struct Placed {
  double time;  // in slots: F = B = W = 1
  bool compute;
  std::int64_t sender;
  StageOp op;
};

// Where the result of an action goes; −1: nowhere, or to a chunk of the same stage.
std::int64_t receiver(const ScheduleSpec& spec, const Action& action, std::int64_t stage) {
  std::int64_t chunk = action.chunk;
  if (action.kind == ActionKind::kBackwardWeight) return -1;
  chunk += action.kind == ActionKind::kForward ? 1 : -1;
  if (chunk < 0 || chunk == chunk_count(spec)) return -1;
  const std::int64_t other = stage_of_chunk(spec, chunk);
  return other == stage ? -1 : other;
}

}  // namespace

std::vector<std::vector<StageOp>> with_messages(const PipelineSchedule& schedule) {
  const ScheduleSpec& spec = schedule.spec;
  const auto v = static_cast<double>(spec.virtual_stages);
  const PipelineTimeline timeline = simulate_pipeline(schedule, equal_times(spec, {v, v, v}));
  std::vector<std::vector<Placed>> placed(schedule.stages.size());
  for (std::size_t i = 0; i < timeline.stages.size(); ++i) {
    const auto stage = static_cast<std::int64_t>(i);
    for (const TimedAction& timed : timeline.stages[i].actions) {
      placed[i].push_back({timed.start_s, true, stage, {StageOpKind::kCompute, timed.action, -1}});
      const std::int64_t other = receiver(spec, timed.action, stage);
      if (other < 0) continue;
      placed[i].push_back({timed.end_s,
                           false,
                           stage,
                           {StageOpKind::kSend, timed.action, static_cast<std::int32_t>(other)}});
      placed[static_cast<std::size_t>(other)].push_back(
          {timed.end_s,
           false,
           stage,
           {StageOpKind::kReceive, timed.action, static_cast<std::int32_t>(stage)}});
    }
  }
  std::vector<std::vector<StageOp>> lists(placed.size());
  for (std::size_t i = 0; i < placed.size(); ++i) {
    // A message comes after the action that ends and before those that start at its time. A stage
    // ends one action at a time, so time and sender name a message.
    std::sort(placed[i].begin(), placed[i].end(), [](const Placed& a, const Placed& b) {
      return std::tie(a.time, a.compute, a.sender) < std::tie(b.time, b.compute, b.sender);
    });
    lists[i].reserve(placed[i].size());
    for (const Placed& item : placed[i]) lists[i].push_back(item.op);
  }
  return lists;
}

}  // namespace nqd::planner
