#include "planner/schedule/schedule.h"

#include <algorithm>
#include <array>

#include "planner/schedule/walk.h"

namespace nqd::planner {
namespace {

// Appends to one stage's list; each (kind, chunk of the stage) counts its own micro-batches.
class StageList {
 public:
  explicit StageList(std::int64_t virtual_stages)
      : next_(static_cast<std::size_t>(4 * virtual_stages), 0) {}

  // The next micro-batch of this kind for `chunk`, the `local`-th chunk that the stage holds.
  void add(ActionKind kind, std::int64_t chunk, std::int64_t local = 0) {
    std::int64_t& micro_batch = count(kind, local);
    actions_.push_back(
        {kind, static_cast<std::int32_t>(micro_batch), static_cast<std::int32_t>(chunk)});
    ++micro_batch;
  }
  std::int64_t& count(ActionKind kind, std::int64_t local = 0) {
    return next_[static_cast<std::size_t>(4 * local) + static_cast<std::size_t>(kind)];
  }
  std::vector<Action> take() { return std::move(actions_); }

 private:
  std::vector<std::int64_t> next_;
  std::vector<Action> actions_;
};

// `warm_up` forwards, then forward and backward in turn, then the remaining backwards. forward(k)
// and backward(k) append the k-th of `total`.
template <typename Forward, typename Backward>
void one_forward_one_backward(std::int64_t total, std::int64_t warm_up, Forward&& forward,
                              Backward&& backward) {
  for (std::int64_t k = 0; k < warm_up; ++k) forward(k);
  for (std::int64_t k = 0; k < total; ++k) {
    if (k + warm_up < total) forward(k + warm_up);
    backward(k);
  }
}

std::vector<Action> plain_stage(const ScheduleSpec& spec, std::int64_t stage) {
  const std::int64_t m = spec.micro_batches;
  const std::int64_t warm_up =
      spec.schedule == Schedule::kGPipe ? m : std::min(m, spec.stages - stage - 1);
  StageList list(1);
  one_forward_one_backward(
      m, warm_up, [&](std::int64_t) { list.add(ActionKind::kForward, stage); },
      [&](std::int64_t) { list.add(ActionKind::kBackward, stage); });
  return list.take();
}

std::vector<Action> interleaved_stage(const ScheduleSpec& spec, std::int64_t stage) {
  const std::int64_t p = spec.stages;
  const std::int64_t v = spec.virtual_stages;
  const std::int64_t total = spec.micro_batches * v;
  const std::int64_t warm_up = std::min(total, 2 * (p - stage - 1) + (v - 1) * p);
  StageList list(v);
  // p micro-batches through one chunk, then the same p through the next.
  one_forward_one_backward(
      total, warm_up,
      [&](std::int64_t k) {
        const std::int64_t local = k / p % v;
        list.add(ActionKind::kForward, local * p + stage, local);
      },
      [&](std::int64_t k) {
        const std::int64_t local = v - 1 - k / p % v;
        list.add(ActionKind::kBackward, local * p + stage, local);
      });
  return list.take();
}

// The later the stage, the more weight gradients it puts off: the first stage has none to spare,
// the last does them while the gradient of its last micro-batch travels up.
std::vector<Action> zero_bubble_stage(const ScheduleSpec& spec, std::int64_t stage) {
  const std::int64_t m = spec.micro_batches;
  const std::int64_t warm_up = zero_bubble_warm_up(spec, stage);
  const std::int64_t put_off = zero_bubble_warm_up(spec, 0) - warm_up;
  StageList list(1);
  for (std::int64_t k = 0; k < warm_up; ++k) list.add(ActionKind::kForward, stage);
  for (std::int64_t k = 0; k < m; ++k) {
    list.add(ActionKind::kBackwardInput, stage);
    if (k >= put_off) list.add(ActionKind::kBackwardWeight, stage);
    if (k + warm_up < m) list.add(ActionKind::kForward, stage);
  }
  for (std::int64_t k = std::max<std::int64_t>(m - put_off, 0); k < m; ++k) {
    list.add(ActionKind::kBackwardWeight, stage);
  }
  return list.take();
}

// The order for at least 2p−1 micro-batches, which fill the pipeline; those beyond m are left out
// afterwards, since no action needs another micro-batch's.
std::vector<Action> v_shaped_stage(const ScheduleSpec& spec, std::int64_t stage) {
  const std::int64_t p = spec.stages;
  const std::int64_t m = std::max(spec.micro_batches, 2 * p - 1);
  const std::array<std::int64_t, 2> chunks = {stage, 2 * p - 1 - stage};
  StageList list(2);
  const auto add = [&](ActionKind kind, std::int64_t local) {
    list.add(kind, chunks[static_cast<std::size_t>(local)], local);
  };
  const auto add_backward = [&](std::int64_t local) {
    add(ActionKind::kBackwardInput, local);
    add(ActionKind::kBackwardWeight, local);
  };
  // Down the V until the first micro-batch comes back up.
  for (std::int64_t k = 0; k < 2 * (p - stage) - 1; ++k) add(ActionKind::kForward, 0);
  for (std::int64_t k = 0; k < stage; ++k) {
    add(ActionKind::kForward, 1);
    add(ActionKind::kForward, 0);
  }
  for (std::int64_t k = 0; k < p - stage; ++k) {
    add(ActionKind::kForward, 1);
    add_backward(1);
  }
  while (list.count(ActionKind::kForward, 1) < m) {
    if (list.count(ActionKind::kForward, 0) < m) add(ActionKind::kForward, 0);
    add_backward(0);
    add(ActionKind::kForward, 1);
    add_backward(1);
  }
  for (std::int64_t k = 0; k < stage; ++k) {
    add(ActionKind::kBackwardInput, 0);
    add(ActionKind::kBackwardInput, 1);
  }
  for (std::int64_t k = 0; k < p - stage; ++k) add_backward(0);
  for (const std::int64_t local : {1, 0}) {
    while (list.count(ActionKind::kBackwardWeight, local) < m) {
      add(ActionKind::kBackwardWeight, local);
    }
  }
  std::vector<Action> actions = list.take();
  std::erase_if(actions, [&](const Action& a) { return a.micro_batch >= spec.micro_batches; });
  return actions;
}

std::vector<Action> stage_actions(const ScheduleSpec& spec, std::int64_t stage) {
  switch (spec.schedule) {
    case Schedule::kGPipe:
    case Schedule::k1F1B:
      return plain_stage(spec, stage);
    case Schedule::kInterleaved:
      return interleaved_stage(spec, stage);
    case Schedule::kZbH1:
    case Schedule::kZbH2:
      return zero_bubble_stage(spec, stage);
    case Schedule::kZbV:
      return v_shaped_stage(spec, stage);
  }
  return {};
}

std::string describe(const Action& action) {
  return std::string(name(action.kind)) + " of micro-batch " + std::to_string(action.micro_batch) +
         " on chunk " + std::to_string(action.chunk);
}

bool in_range(const Action& action, const ScheduleSpec& spec) {
  return action.micro_batch >= 0 && action.micro_batch < spec.micro_batches && action.chunk >= 0 &&
         action.chunk < chunk_count(spec);
}

// Bits of what was seen of one chunk of one micro-batch.
enum Seen : unsigned { kSeenForward = 1, kSeenWhole = 2, kSeenInput = 4, kSeenWeight = 8 };

Seen seen(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return kSeenForward;
    case ActionKind::kBackward:
      return kSeenWhole;
    case ActionKind::kBackwardInput:
      return kSeenInput;
    case ActionKind::kBackwardWeight:
      return kSeenWeight;
  }
  return kSeenForward;
}

std::optional<std::string> counts_fault(const PipelineSchedule& schedule) {
  const ScheduleSpec& spec = schedule.spec;
  std::vector<unsigned> found(static_cast<std::size_t>(spec.micro_batches * chunk_count(spec)), 0);
  for (std::size_t stage = 0; stage < schedule.stages.size(); ++stage) {
    for (const Action& action : schedule.stages[stage]) {
      if (!in_range(action, spec)) return describe(action) + " does not exist";
      if (stage_of_chunk(spec, action.chunk) != static_cast<std::int64_t>(stage)) {
        return describe(action) + " is on stage " + std::to_string(stage) + ", which lacks it";
      }
      unsigned& bits =
          found[static_cast<std::size_t>(action.micro_batch * chunk_count(spec) + action.chunk)];
      if ((bits & seen(action.kind)) != 0) return describe(action) + " occurs twice";
      bits |= seen(action.kind);
    }
  }
  for (std::size_t i = 0; i < found.size(); ++i) {
    if (found[i] == (kSeenForward | kSeenWhole)) continue;
    if (found[i] == (kSeenForward | kSeenInput | kSeenWeight)) continue;
    const auto chunks = static_cast<std::size_t>(chunk_count(spec));
    return "micro-batch " + std::to_string(i / chunks) + " lacks an action, or has two, on chunk " +
           std::to_string(i % chunks);
  }
  return std::nullopt;
}

}  // namespace

std::string_view name(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "forward";
    case ActionKind::kBackward:
      return "backward";
    case ActionKind::kBackwardInput:
      return "backward_input";
    case ActionKind::kBackwardWeight:
      return "backward_weight";
  }
  return "?";
}

PipelineSchedule make_schedule(const ScheduleSpec& spec) {
  require_legal(spec);
  PipelineSchedule schedule{spec, {}};
  for (std::int64_t stage = 0; stage < spec.stages; ++stage) {
    schedule.stages.push_back(stage_actions(spec, stage));
  }
  return schedule;
}

std::optional<std::string> schedule_fault(const PipelineSchedule& schedule) {
  if (schedule.stages.size() != static_cast<std::size_t>(schedule.spec.stages)) {
    return std::to_string(schedule.stages.size()) + " lists for " +
           std::to_string(schedule.spec.stages) + " stages";
  }
  if (std::optional<std::string> fault = counts_fault(schedule)) return fault;
  if (!walk(schedule, [](std::size_t, const Action&, const Action*) {})) {
    return "the stages wait for each other for ever";
  }
  return std::nullopt;
}

}  // namespace nqd::planner
