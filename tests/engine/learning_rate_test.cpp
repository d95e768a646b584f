// The learning rate over a run, and what rotary positions turn by.
#include "engine/optimizer/schedule.h"

#include <doctest/doctest.h>

#include <cmath>
#include <numbers>

#include "engine/models/transformer/rotary_frequencies.h"

using namespace nqd;
using planner::DecayShape;
using planner::RateSchedule;

namespace {

planner::OptimizerSpec optimizer(RateSchedule schedule) {
  planner::OptimizerSpec spec;
  spec.learning_rate = 3e-4;
  spec.min_learning_rate = 3e-5;
  spec.schedule = schedule;
  spec.warmup_steps = 10;
  return spec;
}

double rate(const planner::OptimizerSpec& spec, std::int64_t step) {
  return engine::learning_rate(spec, 110, step);
}

}  // namespace

TEST_CASE("every schedule warms up along one line") {
  for (const RateSchedule schedule :
       {RateSchedule::kConstant, RateSchedule::kCosine, RateSchedule::kWsd}) {
    planner::OptimizerSpec spec = optimizer(schedule);
    spec.decay_steps = 20;
    CHECK(rate(spec, 1) == 3e-4 * 1 / 10);
    CHECK(rate(spec, 9) == 3e-4 * 9 / 10);
    CHECK(rate(spec, 10) == 3e-4);
    spec.warmup_steps = 0;
    CHECK(rate(spec, 1) == doctest::Approx(3e-4).epsilon(1e-3));
  }
}

TEST_CASE("constant stays, cosine ends at the minimum") {
  planner::OptimizerSpec constant = optimizer(RateSchedule::kConstant);
  constant.min_learning_rate = constant.learning_rate;
  for (const std::int64_t step : {11, 60, 110, 500}) CHECK(rate(constant, step) == 3e-4);
  const planner::OptimizerSpec cosine = optimizer(RateSchedule::kCosine);
  CHECK(rate(cosine, 60) == doctest::Approx(0.5 * (3e-4 + 3e-5)).epsilon(1e-14));
  CHECK(rate(cosine, 35) ==
        doctest::Approx(3e-5 + 2.7e-4 * (1 + std::numbers::sqrt2 / 2) / 2).epsilon(1e-14));
  CHECK(rate(cosine, 110) == 3e-5);
  CHECK(rate(cosine, 500) == 3e-5);
}

TEST_CASE("wsd holds the peak and goes down in the last decay_steps") {
  planner::OptimizerSpec spec = optimizer(RateSchedule::kWsd);
  spec.decay_steps = 20;
  CHECK(rate(spec, 90) == 3e-4);  // the last stable step
  CHECK(rate(spec, 91) == doctest::Approx(3e-5 + 2.7e-4 * 0.95).epsilon(1e-14));
  CHECK(rate(spec, 105) == doctest::Approx(3e-5 + 2.7e-4 * 0.25).epsilon(1e-14));
  CHECK(rate(spec, 110) == 3e-5);
  CHECK(rate(spec, 500) == 3e-5);
  spec.decay_shape = DecayShape::kOneMinusRoot;
  CHECK(rate(spec, 90) == 3e-4);
  CHECK(rate(spec, 95) == doctest::Approx(3e-5 + 2.7e-4 * 0.5).epsilon(1e-14));
  CHECK(rate(spec, 110) == 3e-5);
  spec.min_learning_rate = 0;
  CHECK(rate(spec, 110) == 0);
  // The whole run behind the warm-up, and none of it.
  spec.decay_steps = 100;
  CHECK(rate(spec, 10) == 3e-4);
  CHECK(rate(spec, 35) == doctest::Approx(1.5e-4).epsilon(1e-14));
  spec.decay_steps = 0;
  CHECK(rate(spec, 110) == 3e-4);
}

TEST_CASE("rotary frequencies: plain, and stretched as in Llama 3.1") {
  planner::ModelSpec model;
  model.rope_base = 500000;
  const std::vector<double> plain = engine::rotary_frequencies(model, 128);
  REQUIRE(plain.size() == 64);
  CHECK(plain[0] == 1);
  CHECK(plain[32] == doctest::Approx(1 / std::sqrt(500000.0)).epsilon(1e-14));
  model.rope_scaling.factor = 8;
  const std::vector<double> stretched = engine::rotary_frequencies(model, 128);
  int kept = 0;
  int divided = 0;
  for (std::size_t i = 0; i < plain.size(); ++i) {
    const double turns = 8192 * plain[i] / (2 * std::numbers::pi);
    if (turns >= 4) {
      CHECK(stretched[i] == plain[i]);
      ++kept;
    } else if (turns <= 1) {
      CHECK(stretched[i] == plain[i] / 8);
      ++divided;
    } else {
      const double smooth = (turns - 1) / 3;
      CHECK(stretched[i] ==
            doctest::Approx((1 - smooth) * plain[i] / 8 + smooth * plain[i]).epsilon(1e-14));
    }
  }
  // Of Llama 3.1's 64 frequencies six are blended (transformers' own function counts the same).
  CHECK(kept == 29);
  CHECK(divided == 29);
}
