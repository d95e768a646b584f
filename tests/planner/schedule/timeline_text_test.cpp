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
        "stage 0 |0>>1>>......<<<<<02>><<<<<1...<<<<<2|\n"
        "stage 1 |...0>><<<<<01>><<<<<12>><<<<<2......|\n"
        "3> forward of micro-batch 3, <3 its backward, . waits\n");
}

}  // namespace
}  // namespace nqd::planner
