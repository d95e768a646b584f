#include "planner/schedule/simulate.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <random>

#include "tests/planner/schedule/specs.h"

namespace nqd::planner {
namespace {

// Whole numbers throughout: sums of doubles are exact, and so are the comparisons.
PipelineTimeline simulate(const ScheduleSpec& spec, const PhaseTimes& chunk, double message = 0) {
  const PipelineTimes times{
      std::vector<PhaseTimes>(static_cast<std::size_t>(chunk_count(spec)), chunk), message};
  return simulate_pipeline(make_schedule(spec), times);
}

PhaseTimes stage_times(const ScheduleSpec& spec, const PhaseTimes& chunk) {
  const auto v = static_cast<double>(spec.virtual_stages);
  return {v * chunk.forward, v * chunk.backward_input, v * chunk.backward_weight};
}

template <typename Check>
void for_every_spec(Check&& check) {
  for (const Schedule kind : kAllSchedules) {
    for (const ScheduleSpec& spec : legal_specs(kind)) {
      CAPTURE(name(kind));
      CAPTURE(spec.stages);
      CAPTURE(spec.micro_batches);
      CAPTURE(spec.virtual_stages);
      check(spec);
    }
  }
}

TEST_CASE("the bubble of equal stages is the closed form, exactly") {
  for_every_spec([](const ScheduleSpec& spec) {
    const PipelineTimeline timeline = simulate(spec, {1, 1, 1});
    const auto work = static_cast<double>(3 * spec.micro_batches * spec.virtual_stages);
    CHECK(timeline.step_s == work + bubble_seconds(spec, stage_times(spec, {1, 1, 1})));
    CHECK(timeline.bubble_fraction == bubble_fraction(spec));
    for (std::size_t i = 0; i < timeline.stages.size(); ++i) {
      CHECK(timeline.stage_bubble_fraction(i) == bubble_fraction(spec));
    }
  });
}

TEST_CASE("the closed form holds for other ratios of forward and backward") {
  const PhaseTimes any[] = {{3, 1, 0}, {2, 1, 4}, {1, 5, 6}};
  const PhaseTimes ordered[] = {{2, 2, 1}, {2, 3, 2}, {10, 11, 9}, {1, 2, 1}, {5, 5, 0}};
  for_every_spec([&](const ScheduleSpec& spec) {
    const auto check = [&](const PhaseTimes& chunk) {
      const PhaseTimes stage = stage_times(spec, chunk);
      const double step = simulate(spec, chunk).step_s;
      const double closed =
          static_cast<double>(spec.micro_batches) * stage.total() + bubble_seconds(spec, stage);
      // The closed form divides by p−1 and v.
      CHECK(step == doctest::Approx(closed).epsilon(1e-14));
    };
    if (!splits_backward(spec.schedule)) {
      for (const PhaseTimes& chunk : any) check(chunk);
    }
    for (const PhaseTimes& chunk : ordered) check(chunk);
  });
}

TEST_CASE("the bubbles of the papers") {
  CHECK(bubble_fraction({Schedule::k1F1B, 4, 8, 1}) == 3.0 / 11);
  CHECK(bubble_fraction({Schedule::kGPipe, 4, 4, 1}) == 3.0 / 7);
  CHECK(bubble_fraction({Schedule::kInterleaved, 4, 8, 2}) == 3.0 / 19);
  // A third of 1f1b's in time.
  CHECK(bubble_fraction({Schedule::kZbH1, 4, 8, 1}) == 3.0 / 27);
  CHECK(bubble_fraction({Schedule::kZbH2, 4, 8, 1}) == 0);
  CHECK(bubble_fraction({Schedule::kZbV, 4, 8, 2}) == 0);
  // Below 2p−1 micro-batches the warm-up cannot be filled.
  CHECK(bubble_fraction({Schedule::kZbH2, 4, 4, 1}) == 3.0 / 15);
  const PhaseTimes stage{5, 6, 4};
  CHECK(bubble_seconds({Schedule::k1F1B, 8, 24, 1}, stage) == 7 * 15);
  CHECK(bubble_seconds({Schedule::kZbH1, 8, 24, 1}, stage) == 7 * (5 + 6 - 4));
  CHECK(bubble_seconds({Schedule::kZbH2, 8, 24, 1}, stage) == 7 * (5 + 6 - 2 * 4));
  CHECK(bubble_seconds({Schedule::kZbV, 8, 24, 2}, stage) == 7 * (6 - 4));
}

TEST_CASE("a barrier between steps costs zb-h2 and zb-v their drain") {
  for_every_spec([](const ScheduleSpec& spec) {
    const PipelineTimeline timeline = simulate(spec, {1, 1, 1});
    const bool drains = spec.schedule == Schedule::kZbH2 || spec.schedule == Schedule::kZbV;
    const double work = static_cast<double>(3 * spec.micro_batches * spec.virtual_stages);
    const double drain = drains ? static_cast<double>(spec.stages - 1) : 0;
    CHECK(timeline.makespan_s == std::max(timeline.step_s, work + drain));
  });
}

TEST_CASE("the peak in flight is the closed form, on every stage") {
  for_every_spec([](const ScheduleSpec& spec) {
    const PipelineTimeline timeline = simulate(spec, {1, 1, 1});
    for (std::size_t i = 0; i < timeline.stages.size(); ++i) {
      CHECK(timeline.stages[i].peak == in_flight(spec, static_cast<std::int64_t>(i)));
    }
  });
  CHECK(in_flight({Schedule::k1F1B, 4, 8, 1}, 1) == InFlight{3, 0});
  CHECK(in_flight({Schedule::kInterleaved, 4, 8, 2}, 0) == InFlight{11, 0});
  // Worker i (from 1) of arXiv:2401.10241: (p−i+1)M_B + (i−1)M_W, (2p−2i+1)M_B + (2i−2)M_W.
  CHECK(in_flight({Schedule::kZbH1, 4, 8, 1}, 2) == InFlight{2, 2});
  CHECK(in_flight({Schedule::kZbH2, 4, 8, 1}, 2) == InFlight{3, 4});
  CHECK(in_flight({Schedule::kZbV, 4, 8, 2}, 2) == InFlight{8, 0});
}

TEST_CASE("small message latencies add up along the longest path") {
  for_every_spec([](const ScheduleSpec& spec) {
    const PhaseTimes chunk{1000, 500, 500};
    const PhaseTimes thirds{1000, 1000, 1000};
    const PhaseTimes& used = splits_backward(spec.schedule) ? thirds : chunk;
    const double added = simulate(spec, used, 1).step_s - simulate(spec, used, 0).step_s;
    CHECK(added == static_cast<double>(exposed_messages(spec)));
  });
}

TEST_CASE("unequal stages: times are causal, and no step is shorter than its busiest stage") {
  std::mt19937 random(7);
  for_every_spec([&](const ScheduleSpec& spec) {
    PipelineTimes times;
    times.message_s = static_cast<double>(random() % 3);
    for (std::int64_t chunk = 0; chunk < chunk_count(spec); ++chunk) {
      times.chunks.push_back({static_cast<double>(1 + random() % 9),
                              static_cast<double>(1 + random() % 9),
                              static_cast<double>(random() % 9)});
    }
    const PipelineTimeline timeline = simulate_pipeline(make_schedule(spec), times);
    double work = 0;
    double busiest = 0;
    for (const StageTimeline& stage : timeline.stages) {
      double free_at = 0;
      for (const TimedAction& timed : stage.actions) {
        CHECK(timed.start_s >= free_at);
        free_at = timed.end_s;
      }
      work += stage.busy_s;
      busiest = std::max(busiest, stage.busy_s);
    }
    double offered = 0;
    for (const PhaseTimes& chunk : times.chunks) {
      offered += static_cast<double>(spec.micro_batches) * chunk.total();
    }
    CHECK(work == offered);
    CHECK(timeline.step_s >= busiest);
    CHECK(timeline.makespan_s >= timeline.step_s);
    CHECK(timeline.bubble_fraction >= 0);
    const PipelineTimeline again = simulate_pipeline(make_schedule(spec), times);
    CHECK(again.makespan_s == timeline.makespan_s);
  });
}

TEST_CASE("the step of unequal stages is never more than the simulation") {
  std::mt19937 random(11);
  for_every_spec([&](const ScheduleSpec& spec) {
    if (spec.virtual_stages > 1) return;
    PipelineTimes wild;
    PipelineTimes near;
    for (std::int64_t stage = 0; stage < spec.stages; ++stage) {
      wild.chunks.push_back({static_cast<double>(1 + random() % 9),
                             static_cast<double>(1 + random() % 9),
                             static_cast<double>(random() % 9)});
      const auto layers = static_cast<double>(16 + random() % 5);
      near.chunks.push_back({3 * layers, 4 * layers, 2 * layers});
    }
    const PipelineSchedule schedule = make_schedule(spec);
    const double step = simulate_pipeline(schedule, wild).step_s;
    CHECK(step_seconds(spec, wild.chunks) <= step);
    if (spec.schedule == Schedule::kGPipe) CHECK(step_seconds(spec, wild.chunks) == step);
    if (spec.micro_batches < 2 * spec.stages - 1) return;
    const double near_step = simulate_pipeline(schedule, near).step_s;
    CHECK(step_seconds(spec, near.chunks) <= near_step);
    const double at_least = splits_backward(spec.schedule) ? 0.99 : 1;
    CHECK(step_seconds(spec, near.chunks) >= at_least * near_step);
  });
}

TEST_CASE("one slow stage") {
  const ScheduleSpec spec{Schedule::k1F1B, 4, 8, 1};
  // The later it is, the less of the others' time it hides: 8·6 and what is left of 3·3.
  const double steps[] = {51, 53, 55, 57};
  for (std::size_t slow = 0; slow < 4; ++slow) {
    PipelineTimes times{std::vector<PhaseTimes>(4, {1, 1, 1}), 0};
    times.chunks[slow] = {2, 2, 2};
    CHECK(simulate_pipeline(make_schedule(spec), times).step_s == steps[slow]);
    CHECK(closed_form_step_seconds(spec, times) == steps[slow]);
  }
  CHECK(step_seconds(spec, {2, 2, 2}, {3, 3, 3}) == 57);
  const ScheduleSpec halves{Schedule::kInterleaved, 4, 8, 2};
  CHECK(step_seconds(halves, {2, 2, 2}, {3, 3, 3}) == 48 + 4.5);
}

}  // namespace
}  // namespace nqd::planner
