// What saves and failures cost, by formula and played through.
#include <doctest/doctest.h>

#include <cmath>
#include <initializer_list>

#include "planner/formulas/failure_simulation.h"

using namespace nqd::planner;

TEST_CASE("the exact goodput is what playing failures through comes to") {
  for (const Resilience& r : {Resilience{60, 1800, 36000, 300}, Resilience{240, 1800, 10800, 600},
                              Resilience{30, 300, 900, 200}, Resilience{5, 50, 40, 10}}) {
    const SimulatedRuns played = simulate_failures(r, {}, 400 * r.interval_s, 400);
    CAPTURE(r.mtbf_s);
    CHECK(std::abs(played.goodput_fraction - exact_goodput(r)) < 4 * played.standard_error);
    CHECK(played.standard_error < 0.003 * exact_goodput(r));
  }
}

TEST_CASE("100,000 devices of five years each: best, Daly and Young") {
  const double mtbf = 5 * 365 * 86400.0 / 100000;
  Resilience r{30, 0, mtbf, 120};
  const auto goodput_at = [&](double interval) {
    r.interval_s = interval;
    return exact_goodput(r);
  };
  const double best = best_interval_s(r);
  // √(2·30·1576.8) = 307.6.
  CHECK(young_interval_s(30, mtbf) == doctest::Approx(307.584).epsilon(1e-5));
  CHECK(daly_interval_s(30, mtbf) == doctest::Approx(best).epsilon(0.001));
  CHECK(goodput_at(best) > goodput_at(best * 1.01));
  CHECK(goodput_at(best) > goodput_at(best * 0.99));
  CHECK(goodput_at(best) >= goodput_at(young_interval_s(30, mtbf)));
  CHECK(goodput_at(best) > goodput_at(3600) * 3);
}

TEST_CASE("limits") {
  Resilience r{10, 100, 1e12, 0};
  CHECK(exact_goodput(r) == doctest::Approx(100.0 / 110));
  CHECK(goodput(r) == doctest::Approx(exact_goodput(r)));
  // A run that no failure meets.
  const SimulatedRuns calm = simulate_failures(r, {}, 1000, 3);
  CHECK(calm.goodput_fraction == doctest::Approx(1000.0 / 1100));
  CHECK(calm.failures == 0);
  r.save_s = 0;
  CHECK(best_interval_s(r) == 0);
}

TEST_CASE("the same seed, the same numbers; the mean time between failures is kept by any shape") {
  const Resilience r{10, 1000, 5000, 100};
  const SimulatedRuns one = simulate_failures(r, {0.7, 3}, 1e6, 20);
  const SimulatedRuns two = simulate_failures(r, {0.7, 3}, 1e6, 20);
  CHECK(one.goodput_fraction == two.goodput_fraction);
  for (const double shape : {0.7, 1.0, 2.0}) {
    const SimulatedRuns played = simulate_failures(r, {shape, 5}, 1e6, 50);
    const double seconds = 1e6 / played.goodput_fraction;
    CHECK(played.failures * 5000 / seconds == doctest::Approx(1).epsilon(0.05));
  }
}
