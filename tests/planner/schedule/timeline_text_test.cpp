#include "planner/schedule/timeline_text.h"

#include <doctest/doctest.h>

namespace nqd::planner {
namespace {

std::string timeline(const ScheduleSpec& spec, const PhaseTimes& stage, int width) {
  return render_timeline(spec, simulate_pipeline(make_schedule(spec), equal_times(spec, stage)),
                         width);
}

TEST_CASE("a timeline in columns") {
  CHECK(timeline({Schedule::k1F1B, 2, 3, 1}, {1, 1, 1}, 80) ==
        "         0                            12.00 s\n"
        "stage 0 |0>>1>>......0<<<<<2>>1<<<<<...2<<<<<|\n"
        "stage 1 |...0>>0<<<<<1>>1<<<<<2>>2<<<<<......|\n"
        "3> forward of micro-batch 3, 3< its backward, . waits\n");
  CHECK(timeline({Schedule::kZbH1, 2, 2, 1}, {1, 1, 1}, 80) ==
        "         0              7.00 s\n"
        "stage 0 |0>>1>>...0<<0ww1<<1ww|\n"
        "stage 1 |...0>>0<<1>>1<<0ww1ww|\n"
        "3> forward of micro-batch 3, 3< input gradient, 3w weight gradient, . waits\n");
}

TEST_CASE("a narrow timeline keeps its width, drops numbers, and says what shows them") {
  CHECK(timeline({Schedule::kInterleaved, 2, 4, 2}, {1, 1, 1}, 40) ==
        "         0                   13.50 s\n"
        "stage 0 |>>>>>.<<><<><<><<.<<.<<<<<<|\n"
        "stage 1 |.>>><<><<><<><<><<><<<<<<..|\n"
        "3> forward of micro-batch 3, 3< its backward, . waits\n"
        "a letter after the number: the chunk of the stage, a first\n"
        "(a width of 91 shows every number)\n");
}

TEST_CASE("the summary has both bubbles and the peak of every stage") {
  const ScheduleSpec spec{Schedule::kZbH2, 2, 4, 1};
  const PipelineTimes times = equal_times(spec, {1, 1, 1});
  CHECK(render_pipeline_summary(spec, simulate_pipeline(make_schedule(spec), times),
                                closed_form_step_seconds(spec, times)) ==
        "step    12.00 s simulated, 12.00 s in closed form\n"
        "bubble  0.0 % simulated, 0.0 % in closed form\n"
        "        13.00 s a step where every stage waits for the others between steps\n"
        "\n"
        "peak of activations in flight, in micro-batches\n"
        "stage        busy    bubble    peak  for weights only\n"
        "    0     12.00 s     0.0 %       3                 0\n"
        "    1     12.00 s     0.0 %       3                 2\n");
}

}  // namespace
}  // namespace nqd::planner
