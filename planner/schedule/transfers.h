// The messages between stages, placed into each stage's list.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/schedule/schedule.h"

namespace nqd::planner {

enum class StageOpKind : std::uint8_t { kCompute, kSend, kReceive };

struct StageOp {
  StageOpKind kind = StageOpKind::kCompute;
  // What is computed; of a send or receive, the action whose result travels: a forward's
  // activations to the chunk after, an input gradient to the chunk before.
  Action action;
  std::int32_t peer = -1;  // the other stage of a message; −1 for a computation
  bool operator==(const StageOp&) const = default;
};

// Each stage's actions with its sends and receives between them. All lists are cut from one common
// order, so blocking calls in list order cannot deadlock even when every send waits for its
// receive, and the messages from one stage to another arrive in the order in which they are
// received. O(actions · log actions). Precondition: schedule_fault finds none.
std::vector<std::vector<StageOp>> with_messages(const PipelineSchedule& schedule);

}  // namespace nqd::planner
