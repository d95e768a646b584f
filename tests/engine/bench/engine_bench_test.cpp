#include "engine/bench/engine_bench.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <map>
#include <string>
#include <vector>

#include "collectives/world.h"
#include "engine/bench/kernel_runner.h"
#include "planner/reference/reference_plan.h"
#include "planner/reference/traffic.h"
#include "planner/reference/work.h"

namespace nqd::engine {
namespace {

planner::Config tiny(planner::Precision precision, collectives::Numerics numerics) {
  planner::Config config;
  config.model.layers = 2;
  config.model.hidden = 32;
  config.model.heads = 4;
  config.model.kv_heads = 4;
  config.model.head_dim = 8;
  config.model.ffn_hidden = 128;
  config.model.vocab = 100;
  config.model.sequence = 16;
  config.cluster.preset = "cpu-host";
  config.cluster.gpus_per_node = 2;
  config.parallel.dp = 2;
  config.train.micro_batch_size = 2;
  config.train.global_batch_size = 8;
  config.train.precision = precision;
  config.numerics.mode = numerics;
  return config;
}

std::vector<collectives::KernelRow> bench(const planner::Config& config, int ranks) {
  std::vector<collectives::KernelRow> rows;
  collectives::WorldOptions options;
  collectives::run_threads(ranks, options, [&](collectives::Communicator& world) {
    const auto mine = run_engine_bench(world, config, {.iterations = 2, .rounds = 2});
    if (world.rank() == 0) rows = mine;
  });
  return rows;
}

TEST_CASE("every kernel is measured on two shapes at least, in every storage type and numerics") {
  for (const auto precision : {planner::Precision::kFloat32, planner::Precision::kBFloat16,
                               planner::Precision::kFloat16}) {
    for (const auto numerics : {collectives::Numerics::kCanonical, collectives::Numerics::kFast}) {
      std::map<std::string, int> shapes;
      for (const collectives::KernelRow& row : bench(tiny(precision, numerics), 2)) {
        CHECK(row.numerics == name(numerics));
        CHECK(row.precision == planner::name(precision));
        CHECK(row.ranks == 2);
        CHECK(row.samples_s.size() == 4);
        CHECK(row.p50_s == collectives::percentile(row.samples_s, 0.5));
        CHECK(row.p50_s > 0);
        ++shapes[row.kernel];
      }
      CHECK(shapes["step"] == 1);
      CHECK(shapes.size() == planner::kKernels + 1);
      // Each family has its own norm, activation and rotation.
      const std::vector<std::string> of_one_family = {"layer_norm",
                                                      "layer_norm_backward",
                                                      "layer_norm_gradient",
                                                      "rms_norm",
                                                      "rms_norm_backward",
                                                      "rms_norm_gradient",
                                                      "gelu",
                                                      "gelu_backward",
                                                      "swiglu",
                                                      "swiglu_backward",
                                                      "rotary",
                                                      "step"};
      for (const auto& [kernel, count] : shapes) {
        const bool one =
            std::find(of_one_family.begin(), of_one_family.end(), kernel) != of_one_family.end();
        CHECK_MESSAGE(count >= (one ? 1 : 2), kernel);
      }
    }
  }
}

TEST_CASE("the calls of a step are those that the planner counts for one rank") {
  const planner::Config config =
      tiny(planner::Precision::kFloat32, collectives::Numerics::kCanonical);
  double operations = 0;
  for (const collectives::KernelRow& row : bench(config, 1)) {
    if (row.k > 0) operations += row.calls * row.units;
  }
  const planner::Config solo = solo_config(config);
  double expected = 0;
  const planner::UnitWork work =
      planner::chunk_work(solo, planner::reference_stages(solo)[0].units);
  for (const auto* calls : {&work.forward, &work.backward_input, &work.backward_weight}) {
    for (const planner::KernelCall& call : *calls) {
      if (call.k > 0) expected += call.calls * planner::cost_of(call).units;
    }
  }
  CHECK(operations == doctest::Approx(expected));
}

TEST_CASE("the other model differs in kind and fits the engine") {
  const planner::Config solo =
      solo_config(tiny(planner::Precision::kFloat32, collectives::Numerics::kFast));
  CHECK(solo.parallel.ranks() == 1);
  CHECK(solo.micro_batches() == 1);
  const planner::Config other = other_config(solo);
  CHECK(other.model.hidden == 16);
  CHECK(other.model.head_dim == 4);
  CHECK(other.model.kv_heads == 2);
  CHECK(other.model.gated_mlp);
  CHECK(other.model.norm == planner::Norm::kRmsNorm);
  CHECK(planner::runs_on_reference_engine(other));
  const planner::Config back = other_config(other);
  CHECK_FALSE(back.model.gated_mlp);
  CHECK(back.model.positions == planner::Positions::kLearned);
  CHECK(planner::runs_on_reference_engine(back));
}

}  // namespace
}  // namespace nqd::engine
