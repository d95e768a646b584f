#include <doctest/doctest.h>

#include "planner/plan/pipeline.h"
#include "planner/schedule/closed_form.h"

namespace nqd::planner {
namespace {

Config config(Schedule schedule, std::int64_t pp, std::int64_t vpp, std::int64_t micro_batches) {
  Config config;
  config.parallel.schedule = schedule;
  config.parallel.pp = pp;
  config.parallel.vpp = vpp;
  config.parallel.dp = 2;
  config.train.micro_batch_size = 3;
  config.train.global_batch_size = 6 * micro_batches;
  return config;
}

TEST_CASE("a config's pipeline under the zero-bubble schedules") {
  const Config v = config(Schedule::kZbV, 4, 2, 8);
  CHECK(schedule_spec(v).virtual_stages == 2);
  CHECK(schedule_spec(v).micro_batches == 8);
  CHECK(plan_pipeline(v).bubble_fraction == 0);
  CHECK(in_flight_micro_batches(v, 3) == 4);
  const Config h1 = config(Schedule::kZbH1, 4, 1, 8);
  CHECK(plan_pipeline(h1).bubble_fraction == 3.0 / 27);
  CHECK(in_flight_micro_batches(h1, 3) == 4);
  CHECK(in_flight_micro_batches(config(Schedule::kZbH2, 4, 1, 8), 3) == 7);
  CHECK(in_flight_micro_batches(config(Schedule::kZbH2, 1, 1, 8), 0) == 1);
}

TEST_CASE("micro-batches for a bubble: the fewest, in the schedule's groups") {
  const auto needed = [](Schedule schedule, std::int64_t p, std::int64_t v) {
    return micro_batches_for_bubble({schedule, p, 1, v}, 0.1);
  };
  CHECK(needed(Schedule::k1F1B, 4, 1) == 27);
  CHECK(needed(Schedule::kInterleaved, 4, 2) == 16);  // 13.5, in groups of 4
  CHECK(needed(Schedule::kZbH1, 4, 1) == 9);
  CHECK(needed(Schedule::kZbH2, 4, 1) == 6);  // 7−m ≤ 3m/9
  CHECK(needed(Schedule::kZbV, 4, 2) == 6);
  CHECK(needed(Schedule::k1F1B, 1, 1) == 1);
  for (std::int64_t p = 2; p < 40; ++p) CHECK(needed(Schedule::k1F1B, p, 1) == 9 * (p - 1));
}

TEST_CASE("the warning about a bubble names what the schedule needs") {
  const Config poor = config(Schedule::kZbH1, 8, 1, 4);
  const auto findings = check_pipeline(poor, plan_pipeline(poor), {});
  REQUIRE(findings.size() == 1);
  CHECK(findings[0].code == "NQD1302");
  CHECK(
      findings[0].hint ==
      "m >= 4p = 32 micro-batches (global_batch_size 192) give 6.8 %; at most 10 % needs m >= 21");
}

}  // namespace
}  // namespace nqd::planner
