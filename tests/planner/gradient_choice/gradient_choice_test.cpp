#include "planner/plan/gradient_choice.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "planner/mesh/stages.h"
#include "planner/plan/communication.h"
#include "planner/planner.h"
#include "planner/reference/reference_plan.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;

Crossovers measured(std::int64_t ranks, const std::string& backend, bool registered,
                    const std::vector<CrossoverChoice>& choices) {
  return {"all_reduce", ranks, true, backend, registered, choices};
}

Config with(std::int64_t dp, const std::vector<Crossovers>& crossovers) {
  Config config = cpu_config(dp);
  config.cluster.crossovers = crossovers;
  return config;
}

bool says(const GradientChoice& choice, Severity severity, const std::string& words) {
  return choice.note && choice.note->code == "NQD1309" && choice.note->severity == severity &&
         choice.note->message.find(words) != std::string::npos;
}

}  // namespace

TEST_CASE("the gradients take what was measured to be fastest for their largest bucket") {
  Config config = cpu_config(4);
  double largest = 0;
  for (const BucketRun& run : stage_buckets(config, stage_layouts(config).front())) {
    largest = std::max(largest, 4.0 * static_cast<double>(run.count));
  }
  const auto chosen = [&](double from_bytes) {
    config.cluster.crossovers = {measured(
        4, "mpi", true, {{1, "direct"}, {from_bytes, "halving_doubling"}, {1e12, "direct"}})};
    return choose_gradient_algorithm(config);
  };
  CHECK(chosen(largest).algorithm == Algorithm::kHalvingDoubling);
  CHECK(chosen(largest).tuned);
  CHECK(says(chosen(largest), Severity::kNote, "halving_doubling"));
  CHECK(chosen(largest + 1).algorithm == Algorithm::kDirect);
  CHECK(chosen(largest + 1).tuned);

  // The plan's traffic, scratch and message are of the choice.
  chosen(largest);
  const Plan plan = make_plan(config);
  CHECK(plan.communication.front().algorithm == "halving_doubling");
  double most = 0;
  for (std::int64_t rank = 0; rank < 4; ++rank) {
    most = std::max(most, reference_traffic(config, rank).front().bytes_sent_per_rank);
  }
  CHECK(plan.communication.front().bytes_sent_per_rank == most);
  Config rings = config;
  rings.cluster.crossovers.clear();
  rings.cluster.ranks_share_memory = false;
  const auto scratch = [](const Plan& of) {
    return of.memory.stages.front().categories.at("communication");
  };
  // Its whole bucket, where a ring holds a quarter.
  CHECK(scratch(plan) > scratch(make_plan(rings)));
  REQUIRE_FALSE(plan.diagnostics.empty());
  CHECK(std::count_if(plan.diagnostics.begin(), plan.diagnostics.end(),
                      [](const Diagnostic& d) { return d.code == "NQD1309"; }) == 1);
}

TEST_CASE("crossovers of other ranks, places, buffers or backends do not apply, which is said") {
  const std::vector<CrossoverChoice> ring = {{1, "ring"}};
  const auto stays = [](const Config& config, std::string_view backend = {}) {
    const GradientChoice choice = choose_gradient_algorithm(config, backend);
    return choice.algorithm == Algorithm::kDirect && !choice.tuned &&
           says(choice, Severity::kWarning, "no crossovers of all_reduce on 2 ranks of one host");
  };
  CHECK(stays(with(2, {measured(3, "mpi", true, ring)})));
  CHECK(stays(with(2, {measured(2, "mpi", false, ring)})));
  Crossovers across = measured(2, "mpi", true, ring);
  across.inside_node = false;
  CHECK(stays(with(2, {across})));
  CHECK(stays(with(2, {measured(2, "mpi", true, ring)}), "local"));
  CHECK(choose_gradient_algorithm(with(2, {measured(2, "mpi", true, ring)}), "mpi").tuned);
  // Of two backends mpi's goes first while nobody knows which it will be.
  const Config both =
      with(2, {measured(2, "local", true, {{1, "direct"}}), measured(2, "mpi", true, ring),
               measured(2, "shm", true, {{1, "recursive_doubling"}})});
  CHECK(choose_gradient_algorithm(both).algorithm == Algorithm::kRing);
  CHECK(choose_gradient_algorithm(both, "shm").algorithm == Algorithm::kRecursiveDoubling);
  CHECK(choose_gradient_algorithm(both, "local").algorithm == Algorithm::kDirect);

  CHECK_FALSE(choose_gradient_algorithm(with(1, {measured(1, "mpi", true, ring)})).note);
  CHECK_FALSE(choose_gradient_algorithm(cpu_config(2)).note);
}

TEST_CASE("an algorithm that the audit or the numerics cannot have is not taken") {
  const auto refused = [](Config config, const std::string& algorithm, const std::string& why) {
    config.cluster.crossovers = {measured(3, "mpi", true, {{1, algorithm}})};
    const GradientChoice choice = choose_gradient_algorithm(config);
    return choice.algorithm == Algorithm::kDirect && says(choice, Severity::kWarning, why);
  };
  Config three = cpu_config(3);
  CHECK(refused(three, "tree", "differ from rank to rank"));
  for (const char* other : {"hierarchical", "nvls", "double_binary_tree", "library"}) {
    CHECK(refused(three, other, "does not run it"));
  }
  CHECK(refused(three, "recursive_doubling", "differ from rank to rank"));
  three.numerics.mode = collectives::Numerics::kCanonical;
  three.train.global_batch_size = 3 * 4 * three.train.micro_batch_size;
  CHECK(refused(three, "ring", "numerics: canonical"));
  three.numerics.mode = collectives::Numerics::kFast;
  CHECK_FALSE(refused(three, "ring", ""));
  CHECK(choose_gradient_algorithm(with(2, {measured(2, "mpi", true, {{1, "ring"}})})).algorithm ==
        Algorithm::kRing);
  // Without shared memory private buffers count, and direct cannot run.
  Config apart = with(2, {measured(2, "mpi", false, {{1, "direct"}})});
  apart.cluster.ranks_share_memory = false;
  CHECK(choose_gradient_algorithm(apart).algorithm == Algorithm::kRing);
  CHECK(says(choose_gradient_algorithm(apart), Severity::kWarning, "do not share memory"));
}

}  // namespace nqd::planner
