#include <doctest/doctest.h>

#include <algorithm>
#include <random>
#include <vector>

#include "planner/search/score.h"

namespace nqd::planner::search {
namespace {

Score score(double step_s, double bytes, std::int32_t gpus, std::int32_t micro_batch_size = 1) {
  Score made;
  made.candidate.dp = gpus;
  made.candidate.micro_batch_size = micro_batch_size;
  made.step_s = step_s;
  made.bytes = bytes;
  return made;
}

bool dominates(const Score& a, const Score& b) {
  return a.step_s <= b.step_s && a.bytes <= b.bytes && a.gpus() <= b.gpus();
}

bool same_point(const Score& a, const Score& b) {
  return a.step_s == b.step_s && a.bytes == b.bytes && a.gpus() == b.gpus();
}

TEST_CASE("a front holds what nothing dominates, whatever the order and the grouping") {
  std::mt19937 random(7);
  for (int round = 0; round < 50; ++round) {
    std::vector<Score> all;
    for (int i = 0; i < 60; ++i) {
      const auto draw = [&](unsigned most) { return static_cast<int>(random() % most); };
      all.push_back(score(draw(8), draw(8), 1 + draw(3), 1 + draw(4)));
    }
    std::vector<Score> expected;
    for (const Score& one : all) {
      const bool beaten = std::any_of(all.begin(), all.end(), [&](const Score& other) {
        if (same_point(one, other)) return simpler(other.candidate, one.candidate);
        return dominates(other, one);
      });
      const bool held = std::any_of(expected.begin(), expected.end(), [&](const Score& other) {
        return other.candidate == one.candidate && same_point(one, other);
      });
      if (!beaten && !held) expected.push_back(one);
    }
    ParetoFront left;
    ParetoFront right;
    for (std::size_t i = 0; i < all.size(); ++i) (i % 3 == 0 ? left : right).add(all[i]);
    left.merge(right);
    const std::vector<Score> front = left.sorted();
    REQUIRE(front.size() == expected.size());
    for (const Score& one : expected) {
      CHECK(std::any_of(front.begin(), front.end(), [&](const Score& other) {
        return other.candidate == one.candidate && same_point(one, other);
      }));
    }
    CHECK(std::is_sorted(front.begin(), front.end(),
                         [](const Score& a, const Score& b) { return a.step_s < b.step_s; }));
  }
}

TEST_CASE("objectives order plans, ties go to the simpler") {
  const Score fast = score(1, 10, 8);
  const Score small = score(2, 5, 8);
  const Score cheap = score(3, 10, 2);
  CHECK(better(Objective::kStepTime, fast, small));
  CHECK(better(Objective::kMemory, small, fast));
  CHECK(better(Objective::kCost, cheap, fast));
  CHECK(better(Objective::kGpus, cheap, small));
  CHECK(better(Objective::kStepTime, score(1, 10, 8, 1), score(1, 10, 8, 2)));
  CHECK(parse_objective("cost") == Objective::kCost);
  CHECK(!parse_objective("speed"));
}

}  // namespace
}  // namespace nqd::planner::search
