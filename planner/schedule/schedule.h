// A pipeline schedule as an object: what each stage computes, in order. The planner simulates it
// (planner/schedule/simulate.h), the engine walks it; messages follow from the dependencies
// (planner/schedule/transfers.h). The order depends on the counts alone, never on times.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/spec.h"

namespace nqd::planner {

struct ScheduleSpec {
  Schedule schedule = Schedule::k1F1B;
  std::int64_t stages = 1;          // p, ranks of the pipeline
  std::int64_t micro_batches = 1;   // m of one optimizer step
  std::int64_t virtual_stages = 1;  // v, chunks of the model a stage holds; zb-v: 2
};

enum class ActionKind : std::uint8_t {
  kForward,
  kBackward,        // gradients of inputs and weights together
  kBackwardInput,   // the gradient that the chunk before waits for
  kBackwardWeight,  // the gradient that only the optimizer waits for
};
std::string_view name(ActionKind kind);  // "forward", "backward", "backward_input", …

struct Action {
  ActionKind kind = ActionKind::kForward;
  std::int32_t micro_batch = 0;  // 0 … m−1
  std::int32_t chunk = 0;        // 0 … p·v−1 in the order of the model's layers
  bool operator==(const Action&) const = default;
};

struct PipelineSchedule {
  ScheduleSpec spec;
  std::vector<std::vector<Action>> stages;  // by stage, in the order of execution
};

// Whether the schedule's backward is two actions.
constexpr bool splits_backward(Schedule schedule) noexcept {
  return schedule == Schedule::kZbH1 || schedule == Schedule::kZbH2 || schedule == Schedule::kZbV;
}

// p·v.
constexpr std::int64_t chunk_count(const ScheduleSpec& spec) noexcept {
  return spec.stages * spec.virtual_stages;
}

// The stage that holds a chunk: zb-v goes down the stages and back up (p−1 holds the chunks p−1
// and p), the others deal the chunks out in turn.
constexpr std::int64_t stage_of_chunk(const ScheduleSpec& spec, std::int64_t chunk) noexcept {
  if (spec.schedule == Schedule::kZbV) {
    return chunk < spec.stages ? chunk : 2 * spec.stages - 1 - chunk;
  }
  return chunk % spec.stages;
}

// Forwards that a stage runs before its first backward: zb-h1 p−stage as 1f1b, zb-h2
// 2(p−stage)−1, at most m. Precondition: one of these two.
constexpr std::int64_t zero_bubble_warm_up(const ScheduleSpec& spec, std::int64_t stage) noexcept {
  const std::int64_t left = spec.stages - stage;
  const std::int64_t most = spec.schedule == Schedule::kZbH1 ? left : 2 * left - 1;
  return most < spec.micro_batches ? most : spec.micro_batches;
}

// Throws Error (kNo) for a combination that has no schedule, with the nearest that has: NQD1210,
// NQD1232 no pipeline to interleave or to fill; NQD1211 m not a multiple of p; NQD1223 v of another
// schedule. kUsage, NQD1009 for counts below 1 or more than 10^7 actions.
void require_legal(const ScheduleSpec& spec);

// The schedule of a legal spec.
// - gpipe: all forwards, all backwards.
// - 1f1b: p−stage−1 forwards, then one forward and one backward in turn (PipeDream-flush).
// - interleaved: the same over chunks, in groups of p micro-batches (Narayanan et al.,
//   arXiv:2104.04473).
// - zb-h1, zb-h2: 1f1b with weight gradients put off; zb-h2 with forwards enough to fill the
//   warm-up (Qi et al., arXiv:2401.10241).
// - zb-v: two chunks a stage, placed as a V (Qi et al., arXiv:2405.15362).
// Each chunk takes its micro-batches in ascending order in every phase, so gradients accumulate in
// the same order under all schedules.
PipelineSchedule make_schedule(const ScheduleSpec& spec);

// What is wrong with a schedule, in one sentence; nothing when every chunk of every micro-batch has
// one forward and one backward (whole, or both halves) on its own stage and the stages, each in
// its order, run to the end.
std::optional<std::string> schedule_fault(const PipelineSchedule& schedule);

}  // namespace nqd::planner
