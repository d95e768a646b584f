#include "collectives/bench/timing.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstddef>
#include <vector>

#include "collectives/bench/bench.h"

namespace nqd::collectives {
namespace {

std::vector<double> ramp(int count) {
  std::vector<double> samples;
  for (int i = count; i >= 1; --i) samples.push_back(i);
  return samples;
}

TEST_CASE("the interval of a median holds the order statistics of its ranks") {
  CHECK(!median_interval({}));
  CHECK(!median_interval(ramp(7)));
  // Ranks floor((9 - 5.88) / 2) = 1 and ceil(1 + (9 + 5.88) / 2) = 9.
  CHECK(median_interval(ramp(9))->low == 1);
  CHECK(median_interval(ramp(9))->high == 9);
  // floor((100 - 19.6) / 2) = 40 and ceil(1 + (100 + 19.6) / 2) = 61.
  CHECK(median_interval(ramp(100))->low == 40);
  CHECK(median_interval(ramp(100))->high == 61);
}

TEST_CASE("tight is a half width of 2 % of the median, from 20 samples on") {
  CHECK(!is_tight(std::vector<double>(19, 1.0)));
  CHECK(is_tight(std::vector<double>(20, 1.0)));
  // Ranks 5 and 16 of 20, so half the width is half of the step.
  std::vector<double> step(20, 1.0);
  std::fill(step.begin() + 12, step.end(), 1.039);
  CHECK(is_tight(step));
  std::fill(step.begin() + 12, step.end(), 1.041);
  CHECK(!is_tight(step));
}

TEST_CASE("calls of a time-bounded measurement") {
  const std::vector<double> loose = ramp(40);
  CHECK(next_calls(loose, 2.0, 2.0, 100) == 0);
  CHECK(next_calls(std::vector<double>(40, 1.0), 0.1, 2.0, 100) == 0);
  // 40 calls in 1 s leave time for 40; the batch and what was done limit them.
  CHECK(next_calls(loose, 1.0, 2.0, 100) == 40);
  CHECK(next_calls(loose, 1.0, 2.0, 7) == 7);
  CHECK(next_calls(loose, 0.1, 2.0, 100) == 40);
  CHECK(next_calls(loose, 1.9, 2.0, 100) == 2);
  CHECK(next_calls(ramp(int(kMaxTimedCalls)), 1.0, 1e6, 100) == 0);
}

TEST_CASE("the order of a sweep is a permutation for each repeat, by the seed") {
  CHECK(sweep_order(4, 1, 7) == std::vector<std::size_t>{0, 1, 2, 3});
  const auto order = sweep_order(30, 3, 7);
  REQUIRE(order.size() == 90);
  for (std::size_t repeat = 0; repeat < 3; ++repeat) {
    std::vector<std::size_t> part(order.begin() + std::ptrdiff_t(30 * repeat),
                                  order.begin() + std::ptrdiff_t(30 * repeat + 30));
    CHECK(!std::is_sorted(part.begin(), part.end()));
    std::sort(part.begin(), part.end());
    CHECK(part == sweep_order(30, 1, 0));
  }
  CHECK(order == sweep_order(30, 3, 7));
  CHECK(order != sweep_order(30, 3, 8));
  // Repeats differ from each other.
  CHECK(!std::equal(order.begin(), order.begin() + 30, order.begin() + 30));
}

TEST_CASE("spread between repeats") {
  BenchRow row;
  row.repeat_p50_s = {2};
  CHECK(repeat_spread(row) == 0);
  row.repeat_p50_s = {2, 3, 2.5};
  CHECK(repeat_spread(row) == doctest::Approx(0.4));
}

}  // namespace
}  // namespace nqd::collectives
