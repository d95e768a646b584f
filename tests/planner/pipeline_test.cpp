#include "planner/plan/pipeline.h"

#include <doctest/doctest.h>

#include "planner/planner.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

TEST_CASE("golden: four stages") {
  CHECK(bubble_fraction(4, 4) == doctest::Approx(3.0 / 7));
  CHECK(bubble_fraction(4, 16) == doctest::Approx(3.0 / 19));
  CHECK(bubble_fraction(1, 1) == 0);
  CHECK(interleaved_bubble_fraction(4, 4, 3) == doctest::Approx(3.0 / 15));
}

TEST_CASE("golden: at most 10 % needs 9(p−1) micro-batches") {
  for (std::int64_t p : {2, 3, 4, 8, 16, 35, 64}) {
    const std::int64_t m = micro_batches_for_bubble(p, 0.1);
    CHECK(m == 9 * (p - 1));
    CHECK(bubble_fraction(p, m) <= 0.1 + 1e-12);
    CHECK(bubble_fraction(p, m - 1) > 0.1);
  }
  CHECK(micro_batches_for_bubble(1, 0.1) == 1);
  CHECK(micro_batches_for_bubble(4, 0.1, 3) == 9);
}

TEST_CASE("the warning comes above 20 % and says how to mend it") {
  Config config = gpt3_config();
  config.parallel.pp = 4;
  config.parallel.dp = 2;
  config.train.global_batch_size = 8;
  const auto warnings = check_pipeline(config, plan_pipeline(config), {});
  REQUIRE(warnings.size() == 1);
  CHECK(warnings[0].code == "NQD1302");
  CHECK(warnings[0].severity == Severity::kWarning);
  CHECK(warnings[0].message ==
        "42.9 % of the step is pipeline bubble with 4 stages and 4 micro-batches");
  CHECK(
      warnings[0].hint ==
      "m >= 4p = 16 micro-batches (global_batch_size 32) give 15.8 %; at most 10 % needs m >= 27");
  config.train.global_batch_size = 32;
  CHECK(check_pipeline(config, plan_pipeline(config), {}).empty());
  config.parallel.schedule = Schedule::kInterleaved;
  config.parallel.vpp = 2;
  config.train.global_batch_size = 8;
  const auto interleaved = check_pipeline(config, plan_pipeline(config), {});
  REQUIRE(interleaved.size() == 1);
  CHECK(interleaved[0].hint.ends_with("at most 10 % needs m >= 16"));  // 14, in multiples of 4
}

TEST_CASE("in-flight micro-batches by schedule") {
  Config config = gpt3_config();
  config.parallel.pp = 4;
  config.train.global_batch_size = 8;
  for (std::int64_t stage = 0; stage < 4; ++stage) {
    config.parallel.schedule = Schedule::kGPipe;
    CHECK(in_flight_micro_batches(config, stage) == 8);
    config.parallel.schedule = Schedule::k1F1B;
    CHECK(in_flight_micro_batches(config, stage) == static_cast<double>(4 - stage));
  }
  config.parallel.schedule = Schedule::kInterleaved;
  config.parallel.vpp = 2;
  // p·(1 + (p−1)/(p·v)) on the first stage.
  CHECK(in_flight_micro_batches(config, 0) == 4 * (1 + 3.0 / 8));
  CHECK(in_flight_micro_batches(config, 3) == (0 + 4 + 1) / 2.0);
  config.parallel.schedule = Schedule::k1F1B;
  config.train.global_batch_size = 2;
  CHECK(in_flight_micro_batches(config, 0) == 2);
  config.parallel.pp = 1;
  CHECK(in_flight_micro_batches(config, 0) == 1);
}

TEST_CASE("1F1B never holds more than GPipe") {
  Config config = gpt3_config();
  for (std::int64_t p : {2, 4, 8}) {
    for (std::int64_t m : {1, 3, 8, 40}) {
      config.parallel.pp = p;
      config.train.global_batch_size = m;
      for (std::int64_t stage = 0; stage < p; ++stage) {
        config.parallel.schedule = Schedule::kGPipe;
        const double gpipe = in_flight_micro_batches(config, stage);
        config.parallel.schedule = Schedule::k1F1B;
        CHECK(in_flight_micro_batches(config, stage) <= gpipe);
      }
    }
  }
}

}  // namespace
}  // namespace nqd::planner
