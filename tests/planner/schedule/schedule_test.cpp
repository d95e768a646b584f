#include "planner/schedule/schedule.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <tuple>
#include <utility>

#include "base/error.h"
#include "planner/schedule/transfers.h"
#include "tests/planner/schedule/specs.h"

namespace nqd::planner {
namespace {

// "F0 F1 B0": the order of one stage; chunks after a dot when there are several.
std::string text(const PipelineSchedule& schedule, std::size_t stage) {
  std::string all;
  for (const Action& action : schedule.stages[stage]) {
    const char letter[] = {'F', 'B', 'I', 'W'};
    all += (all.empty() ? "" : " ") + std::string(1, letter[static_cast<int>(action.kind)]) +
           std::to_string(action.micro_batch);
    if (schedule.spec.virtual_stages > 1) all += "." + std::to_string(action.chunk);
  }
  return all;
}

TEST_CASE("the orders are those of the papers") {
  const auto order = [](Schedule schedule, std::int64_t p, std::int64_t m, std::int64_t v,
                        std::size_t stage) {
    return text(make_schedule({schedule, p, m, v}), stage);
  };
  CHECK(order(Schedule::kGPipe, 3, 2, 1, 1) == "F0 F1 B0 B1");
  CHECK(order(Schedule::k1F1B, 3, 4, 1, 0) == "F0 F1 F2 B0 F3 B1 B2 B3");
  CHECK(order(Schedule::k1F1B, 3, 4, 1, 2) == "F0 B0 F1 B1 F2 B2 F3 B3");
  CHECK(order(Schedule::kInterleaved, 2, 2, 2, 0) == "F0.0 F1.0 F0.2 F1.2 B0.2 B1.2 B0.0 B1.0");
  CHECK(order(Schedule::kInterleaved, 2, 2, 2, 1) == "F0.1 F1.1 F0.3 B0.3 F1.3 B1.3 B0.1 B1.1");
  CHECK(order(Schedule::kZbH1, 3, 4, 1, 0) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  CHECK(order(Schedule::kZbH1, 3, 4, 1, 2) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
  CHECK(order(Schedule::kZbH2, 2, 4, 1, 0) == "F0 F1 F2 I0 W0 F3 I1 W1 I2 W2 I3 W3");
  CHECK(order(Schedule::kZbH2, 2, 4, 1, 1) == "F0 I0 F1 I1 F2 I2 W0 F3 I3 W1 W2 W3");
  CHECK(order(Schedule::kZbV, 2, 3, 2, 1) ==
        "F0.1 F0.2 F1.1 F1.2 I0.2 W0.2 F2.1 I0.1 W0.1 F2.2 I1.2 W1.2 I1.1 I2.2 I2.1 W1.1 W2.2 "
        "W2.1");
}

TEST_CASE("chunks are dealt out in turn, or as a V") {
  const ScheduleSpec interleaved{Schedule::kInterleaved, 3, 3, 2};
  const ScheduleSpec v{Schedule::kZbV, 3, 3, 2};
  const std::int64_t dealt[] = {0, 1, 2, 0, 1, 2};
  const std::int64_t shaped[] = {0, 1, 2, 2, 1, 0};
  for (std::int64_t chunk = 0; chunk < 6; ++chunk) {
    CHECK(stage_of_chunk(interleaved, chunk) == dealt[chunk]);
    CHECK(stage_of_chunk(v, chunk) == shaped[chunk]);
  }
}

TEST_CASE("every schedule is complete, runs to its end, and is made the same way twice") {
  for (const Schedule kind : kAllSchedules) {
    for (const ScheduleSpec& spec : legal_specs(kind)) {
      CAPTURE(name(kind));
      CAPTURE(spec.stages);
      CAPTURE(spec.micro_batches);
      CAPTURE(spec.virtual_stages);
      const PipelineSchedule schedule = make_schedule(spec);
      CHECK(schedule_fault(schedule) == std::nullopt);
      CHECK(schedule.stages == make_schedule(spec).stages);
      // Gradients are added up in the order of the micro-batches.
      std::map<std::pair<ActionKind, std::int32_t>, std::int32_t> last;
      for (const auto& stage : schedule.stages) {
        for (const Action& action : stage) {
          const auto [at, fresh] = last.try_emplace({action.kind, action.chunk}, -1);
          CHECK(action.micro_batch == at->second + 1);
          at->second = action.micro_batch;
        }
      }
    }
  }
}

// Runs the lists with calls that block on both sides; returns how many operations are left.
std::size_t left_over(const std::vector<std::vector<StageOp>>& lists) {
  std::vector<std::size_t> next(lists.size(), 0);
  std::size_t left = 0;
  for (const auto& list : lists) left += list.size();
  bool moved = true;
  while (moved) {
    moved = false;
    for (std::size_t stage = 0; stage < lists.size(); ++stage) {
      while (next[stage] < lists[stage].size()) {
        const StageOp& op = lists[stage][next[stage]];
        if (op.kind == StageOpKind::kSend) {
          const auto peer = static_cast<std::size_t>(op.peer);
          const StageOp wanted{StageOpKind::kReceive, op.action, static_cast<std::int32_t>(stage)};
          if (next[peer] == lists[peer].size() || !(lists[peer][next[peer]] == wanted)) break;
          ++next[peer];
          --left;
        } else if (op.kind == StageOpKind::kReceive) {
          break;  // the sender moves both
        }
        ++next[stage];
        --left;
        moved = true;
      }
    }
  }
  return left;
}

TEST_CASE("messages that block on both sides run to the end, and come before their use") {
  for (const Schedule kind : kAllSchedules) {
    for (const ScheduleSpec& spec : legal_specs(kind)) {
      CAPTURE(name(kind));
      CAPTURE(spec.stages);
      CAPTURE(spec.micro_batches);
      CAPTURE(spec.virtual_stages);
      const PipelineSchedule schedule = make_schedule(spec);
      const auto lists = with_messages(schedule);
      CHECK(left_over(lists) == 0);
      std::size_t sends = 0;
      for (std::size_t stage = 0; stage < lists.size(); ++stage) {
        std::vector<Action> computed;
        std::map<std::tuple<bool, std::int32_t, std::int32_t>, bool> here;
        for (const StageOp& op : lists[stage]) {
          const bool forward = op.action.kind == ActionKind::kForward;
          if (op.kind == StageOpKind::kReceive) {
            here[{forward, op.action.micro_batch, op.action.chunk}] = true;
          } else if (op.kind == StageOpKind::kSend) {
            ++sends;
            CHECK(std::find(computed.begin(), computed.end(), op.action) != computed.end());
          } else {
            computed.push_back(op.action);
            const std::int32_t from = op.action.chunk + (forward ? -1 : 1);
            if (op.action.kind == ActionKind::kBackwardWeight || from < 0 ||
                from == chunk_count(spec) ||
                stage_of_chunk(spec, from) == static_cast<std::int64_t>(stage)) {
              continue;
            }
            CHECK(here.contains({forward, op.action.micro_batch, from}));
          }
        }
        CHECK(computed == schedule.stages[stage]);
      }
      const std::int64_t boundaries =
          spec.stages == 1 ? 0 : chunk_count(spec) - 1 - (kind == Schedule::kZbV ? 1 : 0);
      CHECK(sends == static_cast<std::size_t>(2 * boundaries * spec.micro_batches));
    }
  }
}

TEST_CASE("a damaged schedule is found out") {
  const ScheduleSpec spec{Schedule::k1F1B, 2, 2, 1};
  const auto fault = [&](auto&& damage) {
    PipelineSchedule schedule = make_schedule(spec);
    damage(schedule.stages);
    return schedule_fault(schedule).value_or("none");
  };
  using Lists = std::vector<std::vector<Action>>;
  CHECK(fault([](Lists&) {}) == "none");
  CHECK(fault([](Lists& s) { s[0].pop_back(); }) ==
        "micro-batch 1 lacks an action, or has two, on chunk 0");
  CHECK(fault([](Lists& s) { s[1].push_back(s[1][0]); }) ==
        "forward of micro-batch 0 on chunk 1 occurs twice");
  CHECK(fault([](Lists& s) { std::swap(s[0][0], s[1][0]); }) ==
        "forward of micro-batch 0 on chunk 1 is on stage 0, which lacks it");
  CHECK(fault([](Lists& s) { s[0][0].micro_batch = 2; }) ==
        "forward of micro-batch 2 on chunk 0 does not exist");
  CHECK(fault([](Lists& s) {
          s[1].push_back({ActionKind::kBackwardInput, 0, 1});
        }) == "micro-batch 0 lacks an action, or has two, on chunk 1");
  CHECK(fault([](Lists& s) { s.pop_back(); }) == "1 lists for 2 stages");
  // Stage 1 wants the second micro-batch first, stage 0 the backward of the first before that.
  CHECK(fault([](Lists& s) {
          s[0] = {{ActionKind::kForward, 0, 0},
                  {ActionKind::kBackward, 0, 0},
                  {ActionKind::kForward, 1, 0},
                  {ActionKind::kBackward, 1, 0}};
          std::rotate(s[1].begin(), s[1].begin() + 2, s[1].end());
        }) == "the stages wait for each other for ever");
}

TEST_CASE("a combination without a schedule is refused with the nearest that has one") {
  const auto refused = [](const ScheduleSpec& spec) {
    try {
      make_schedule(spec);
    } catch (const Error& error) {
      return std::to_string(static_cast<int>(error.exit_code())) + " " + error.code() + " " +
             error.hint();
    }
    return std::string("accepted");
  };
  CHECK(refused({Schedule::kInterleaved, 4, 10, 2}) == "1 NQD1211 the nearest legal m is 8 or 12");
  CHECK(refused({Schedule::kInterleaved, 4, 3, 2}) == "1 NQD1211 the nearest legal m is 4");
  CHECK(refused({Schedule::kInterleaved, 1, 4, 2}) ==
        "1 NQD1210 use p = 2 or more, or the schedule 1f1b");
  CHECK(refused({Schedule::kZbH1, 1, 4, 1}) == "1 NQD1232 use p = 2 or more, or the schedule 1f1b");
  CHECK(refused({Schedule::kInterleaved, 4, 8, 1}) == "1 NQD1223 use v = 2, or the schedule 1f1b");
  CHECK(refused({Schedule::kGPipe, 4, 8, 2}) == "1 NQD1223 use v = 1, or the schedule interleaved");
  CHECK(refused({Schedule::kZbV, 4, 8, 3}) == "1 NQD1223 use v = 2");
  CHECK(refused({Schedule::k1F1B, 0, 8, 1}) == "2 NQD1009 the smallest is 1");
  CHECK(refused({Schedule::kZbH1, 1000, 4000, 1}) ==
        "2 NQD1009 with these stages m is at most 3333");
  CHECK(refused({Schedule::k1F1B, std::int64_t{1} << 40, std::int64_t{1} << 40, 1}) ==
        "2 NQD1009 use fewer stages");
}

}  // namespace
}  // namespace nqd::planner
