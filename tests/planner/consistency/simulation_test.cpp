// The step in closed form against the same step with its pipeline run event by event.
#include <doctest/doctest.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <string>
#include <vector>

#include "planner/schedule/schedule.h"
#include "planner/search/detail.h"
#include "planner/search/search.h"
#include "tests/planner/consistency/shipped_configs.h"

namespace nqd::planner {
namespace {

// Simulated ÷ closed form − 1.
double difference(const Config& config, const search::Score& score) {
  const search::Detail detail = search::detail_of(config, score, 0, true);
  REQUIRE(detail.simulated_step_s);
  return *detail.simulated_step_s / detail.time.step_s - 1;
}

TEST_CASE("shipped pipelines: the closed form is the simulated step within 1.1 %") {
  std::set<Schedule> schedules;
  for (const Config& config : shipped_configs()) {
    if (config.parallel.pp <= 1) continue;
    CAPTURE(config.source);
    schedules.insert(config.parallel.schedule);
    const double apart = std::abs(difference(config, {candidate_of(config), 0, 0}));
    CHECK(apart < 0.011);
    // Virtual stages of equal layers: exact, apart from what puts weight gradients off.
    const ParallelSpec& mesh = config.parallel;
    const bool even = config.model.layers % (mesh.pp * mesh.vpp) == 0;
    if (even && !splits_backward(mesh.schedule)) CHECK(apart < 1e-4);
  }
  CHECK(schedules.size() == 6);
}

TEST_CASE("the best plans of a shipped job are simulated to within 2 % of what ranked them") {
  for (const Config& config : shipped_configs()) {
    const std::string file = config.source.substr(config.source.rfind('/') + 1);
    if (file != "gpt3-175b-4096.yaml" && file != "llama3-405b-131072-tokens.yaml") continue;
    CAPTURE(file);
    int pipelined = 0;
    std::vector<search::Score> best = search::search(config, {}).found.best;
    best.resize(std::min<std::size_t>(best.size(), 10));
    for (const search::Score& score : best) {
      CAPTURE(search::mesh_text(score.candidate));
      CAPTURE(name(score.candidate.schedule));
      CHECK(std::abs(difference(config, score)) < 0.02);
      pipelined += score.candidate.pp > 1 ? 1 : 0;
    }
    CHECK(pipelined > 0);
  }
}

}  // namespace
}  // namespace nqd::planner
