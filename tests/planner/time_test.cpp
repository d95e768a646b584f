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

TEST_CASE("the optimizer's traffic on the CPU engine is 28 bytes a parameter, the norm's 4") {
  Config config = cpu_config(2);
  config.cluster.gemm_flops = 1e10;
  config.cluster.memory_bandwidth_bytes_per_s = 1e10;
  const auto phi = static_cast<double>(parameter_count(config.model));
  // Two replicas take half of the squares each.
  CHECK(plan_compute(config).optimizer_s == doctest::Approx((28 + 2) * phi / 1e10));
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
  const double rows = 2 * 24, h = 16, vocab = 97, layers = 3;
  const double matmul = 2 * rows * (layers * 12 * h * h + vocab * h);
  // Two sequences, two heads of eight columns; 24 queries are one block against all keys.
  const double scores = layers * 2 * 2 * 24 * 24;
  const MicroBatchTime products = plan_compute(config).micro_batch;
  CHECK(products.forward_s == doctest::Approx((matmul + 4 * scores * 8) / 1e10));
  CHECK(products.backward_s == doctest::Approx((2 * matmul + 10 * scores * 8) / 1e10));
  CHECK(3 * matmul == doctest::Approx(rows * (token_flops(model, Recompute::kNone).model -
                                              layers * 3 * 2 * 24 * h)));

  config.cluster.gemm_flops = 1e30;
  config.cluster.memory_bandwidth_bytes_per_s = 1e10;
  // Lookups; two norms, copied biases of qkv and fc, gelu, two residuals a layer; the final norm.
  const double forward = rows * h * (2 * 2 + layers * (4 + 6 + 8 + 8 + 6) + 2) + 2 * rows * vocab;
  // A layer: two copies, four column sums, gelu, two norms twice. One of three micro-batches fills.
  const double phi = static_cast<double>(parameter_count(model));
  const double backward =
      rows * h * (2 * 3 + layers * (2 * 2 + 9 + 12 + 2 * 6) + 6) + 2 * rows * vocab + phi / 3;
  const MicroBatchTime passes = plan_compute(config).micro_batch;
  CHECK(passes.forward_s == doctest::Approx(4 * forward / 1e10));
  CHECK(passes.backward_s == doctest::Approx(4 * backward / 1e10));
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
