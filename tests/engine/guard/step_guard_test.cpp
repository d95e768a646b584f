#include "engine/train/step_guard.h"

#include <doctest/doctest.h>

#include <cmath>
#include <limits>
#include <vector>

#include "engine/numerics/robust.h"

using namespace nqd;
using engine::StepGuard;
using engine::StepVerdict;

namespace {

constexpr double kNan = std::numeric_limits<double>::quiet_NaN();
constexpr double kInfinity = std::numeric_limits<double>::infinity();

planner::GuardSpec spikes(double score, std::int64_t window) {
  planner::GuardSpec guard;
  guard.spike_score = score;
  guard.window = window;
  return guard;
}

}  // namespace

TEST_CASE("median and spread") {
  CHECK(engine::median({3}) == 3);
  CHECK(engine::median({9, 1, 5}) == 5);
  CHECK(engine::median({4, 1, 3, 100}) == 3.5);
  // Deviations from 3 are 2, 1, 0, 1, 97.
  CHECK(engine::robust_spread(std::vector<double>{1, 2, 3, 4, 100}) == 1.4826);
  CHECK(engine::robust_spread(std::vector<double>{7, 7, 7}) == 0);
}

TEST_CASE("steps that are not finite, and how many in a row") {
  planner::GuardSpec spec;
  spec.max_skips = 3;
  StepGuard guard(spec);
  CHECK(guard.judge(1, 1) == StepVerdict::kGood);
  CHECK(guard.judge(kNan, 1) == StepVerdict::kLossNotFinite);
  CHECK(guard.judge(1, kInfinity) == StepVerdict::kGradientsNotFinite);
  CHECK(guard.skipped_in_a_row() == 2);
  CHECK_FALSE(guard.gives_up());
  CHECK(guard.judge(1e30, 1) == StepVerdict::kGood);
  CHECK(guard.skipped_in_a_row() == 0);
  for (int i = 0; i < 3; ++i) guard.judge(kInfinity, kNan);
  CHECK(guard.gives_up());
  CHECK(guard.good_losses().empty());
}

TEST_CASE("a spike is a loss far above the window's, and is no part of it") {
  StepGuard guard(spikes(5, 5));
  // Median 3, spread 1.4826: spikes are above 10.413.
  for (const double loss : {100.0, 1.0, 2.0, 3.0, 4.0, 5.0}) {
    CHECK(guard.judge(loss, 1) == StepVerdict::kGood);
  }
  CHECK(guard.judge(10.42, 1) == StepVerdict::kSpike);
  CHECK(guard.judge(1e9, 1) == StepVerdict::kSpike);
  CHECK(guard.good_losses() == std::vector<double>{1, 2, 3, 4, 5});
  StepGuard resumed(spikes(5, 5));
  resumed.restore(guard.skipped_in_a_row(), guard.good_losses());
  CHECK(resumed.skipped_in_a_row() == 2);
  CHECK(resumed.judge(10.42, 1) == StepVerdict::kSpike);
  CHECK(resumed.judge(10.41, 1) == StepVerdict::kGood);
  CHECK(resumed.good_losses() == std::vector<double>{2, 3, 4, 5, 10.41});
  // Losses far below are no spikes.
  CHECK(resumed.judge(-1e9, 1) == StepVerdict::kGood);
}

TEST_CASE("nothing is a spike before the window is full, or while losses do not vary") {
  StepGuard guard(spikes(1, 4));
  for (const double loss : {2.0, 2.0, 900.0, 2.0, 2.0, 2.0}) {
    CHECK(guard.judge(loss, 1) == StepVerdict::kGood);
  }
  CHECK(guard.judge(2.5, 1) == StepVerdict::kGood);
}
