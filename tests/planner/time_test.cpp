#include "planner/plan/time.h"

#include <doctest/doctest.h>

#include <string>
#include <vector>

#include "planner/planner.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

TEST_CASE("FLOPs follow 72·B·L·s·h²(1 + s/(12h) + V/(12·h·L)) with causal attention") {
  const ModelSpec model = gpt3_config().model;
  const double s = 2048, h = 12288, layers = 96, vocab = 51200;
  const double expected = 72 * layers * h * h * (1 + s / (12 * h) + vocab / (12 * h * layers));
  CHECK(token_flops(model, Recompute::kNone).model == doctest::Approx(expected));
  CHECK(token_flops(model, Recompute::kNone).hardware ==
        token_flops(model, Recompute::kNone).model);
  // The layers' forward once more, not the head's.
  CHECK(token_flops(model, Recompute::kFull).hardware - expected ==
        doctest::Approx(24 * layers * h * h * (1 + s / (12 * h))));
  CHECK(token_flops(model, Recompute::kFull).model == doctest::Approx(expected));
}

TEST_CASE("golden: MFU of 20,000 tokens/s at 120 GFLOP on 8.0 PFLOP/s is 30 %") {
  Config config;
  config.cluster.peak_flops = 1e15;
  config.parallel.dp = 8;
  CHECK(utilisation(config, 120e9 * 20'000) == doctest::Approx(0.3));
  config.cluster.peak_flops = 0;
  CHECK(utilisation(config, 120e9 * 20'000) == 0);
}

TEST_CASE("an unmeasured GEMM rate is 0.6 of the peak") {
  ClusterSpec cluster;
  CHECK(gemm_rate_flops(cluster) == 0);
  cluster.peak_flops = 312e12;
  CHECK(gemm_rate_flops(cluster) == doctest::Approx(0.6 * 312e12));
  cluster.gemm_flops = 271.2e12;
  CHECK(gemm_rate_flops(cluster) == 271.2e12);
}

TEST_CASE("a step is the sum of its parts") {
  const Plan plan = make_plan(gpt3_config());
  const TimePlan& time = plan.time;
  REQUIRE(time.step_s > 0);
  CHECK(time.step_s ==
        doctest::Approx(time.compute_s + time.bubble_s + time.exposed_communication_s +
                        time.optimizer_s + time.jitter_s));
  CHECK(time.tokens_per_s == doctest::Approx(64 * 2048 / time.step_s));
  CHECK(time.bubble_s > 0);
  CHECK(plan.mfu > 0.2);
  CHECK(plan.mfu < 0.6);
  CHECK(plan.hfu == doctest::Approx(plan.mfu));
}

TEST_CASE("recomputation costs a forward: HFU rises above MFU and the step lengthens") {
  Config config = gpt3_config();
  const Plan plain = make_plan(config);
  config.train.recompute = Recompute::kFull;
  const Plan full = make_plan(config);
  CHECK(full.time.compute_s > 1.3 * plain.time.compute_s);
  CHECK(full.time.compute_s < 1.4 * plain.time.compute_s);
  CHECK(full.mfu < plain.mfu);
  CHECK(full.hfu > full.mfu);
}

TEST_CASE("the optimizer's traffic on the CPU engine is 28 bytes a parameter") {
  Config config = cpu_config(2);
  config.cluster.gemm_flops = 1e10;
  config.cluster.memory_bandwidth_bytes_per_s = 1e10;
  const auto phi = static_cast<double>(parameter_count(config.model));
  CHECK(plan_compute(config).optimizer_s == doctest::Approx(28 * phi / 1e10));
}

TEST_CASE("faster rates and fewer tokens never take longer") {
  Config config = cpu_config(2);
  config.cluster.gemm_flops = 1e10;
  config.cluster.memory_bandwidth_bytes_per_s = 1e10;
  const MicroBatchTime slow = plan_compute(config).micro_batch;
  config.cluster.gemm_flops = 2e10;
  const MicroBatchTime fast = plan_compute(config).micro_batch;
  CHECK(fast.forward_s < slow.forward_s);
  CHECK(fast.backward_s < slow.backward_s);
  config.train.micro_batch_size = 4;
  CHECK(plan_compute(config).micro_batch.forward_s == doctest::Approx(2 * fast.forward_s));
}

TEST_CASE("compute of the CPU engine, term by term") {
  Config config = cpu_config(1);
  config.cluster.gemm_flops = 1e10;
  config.cluster.memory_bandwidth_bytes_per_s = 1e30;  // leaves the products alone
  const ModelSpec& model = config.model;
  const double tokens = 2 * 24;
  // Causal scores: what is computed is what MFU counts.
  const double flops = tokens * token_flops(model, Recompute::kNone).model;
  const MicroBatchTime products = plan_compute(config).micro_batch;
  CHECK(products.forward_s + products.backward_s == doctest::Approx(flops / 1e10));
  CHECK(products.backward_s == doctest::Approx(2 * products.forward_s));

  config.cluster.gemm_flops = 1e30;
  config.cluster.memory_bandwidth_bytes_per_s = 1e10;
  const double elements = 3 * (18 * 16 + 2 * 64 + 2 * 24);  // three layers; the scores' causal half
  const MicroBatchTime passes = plan_compute(config).micro_batch;
  CHECK(passes.forward_s == doctest::Approx(4 * tokens * (elements + 2 * 97) / 1e10));
  CHECK(passes.backward_s == doctest::Approx(4 * tokens * (2 * elements + 97) / 1e10));
}

TEST_CASE("every missing rate is named in one run") {
  Config config = cpu_config(2);
  std::vector<std::string> missing;
  for (const Diagnostic& diagnostic : make_plan(config).diagnostics) {
    if (diagnostic.code == "NQD1306") missing.push_back(diagnostic.path);
  }
  CHECK(missing == std::vector<std::string>{"cluster.gemm_flops",
                                            "cluster.memory_bandwidth_bytes_per_s",
                                            "cluster.intra_node"});
}

TEST_CASE("a calibrated rate far below the stated peak is a warning") {
  Config config = gpt3_config();
  const auto warned = [&] {
    for (const Diagnostic& diagnostic : plan_compute(config).diagnostics) {
      if (diagnostic.code == "NQD1308") return diagnostic.severity == Severity::kWarning;
    }
    return false;
  };
  config.cluster.gemm_flops = 0.049 * 312e12;
  CHECK_FALSE(warned());  // the user's own word
  config.cluster.calibration_source = "bench.json";
  CHECK(warned());
  config.cluster.gemm_flops = 0.05 * 312e12;
  CHECK_FALSE(warned());
  config.cluster.gemm_flops = 0;
  CHECK_FALSE(warned());
}

TEST_CASE("a missing rate leaves the time unknown and names itself") {
  Config config = cpu_config(1);
  Plan plan = make_plan(config);
  CHECK(plan.time.step_s == 0);
  CHECK(plan.mfu == 0);
  config.cluster.memory_bandwidth_bytes_per_s = 1e10;
  const ComputePlan compute = plan_compute(config);
  CHECK_FALSE(compute.known);
  REQUIRE(compute.diagnostics.size() == 1);
  CHECK(compute.diagnostics[0].code == "NQD1306");
  CHECK(compute.diagnostics[0].message.find("gemm_flops") != std::string::npos);
  CHECK(make_plan(state_config(1e9, Engine::kDdp, 8)).time.step_s == 0);
}

}  // namespace
}  // namespace nqd::planner
