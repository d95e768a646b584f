// Switches that change what a run does also change how long it is said to take.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "planner/config/config.h"
#include "planner/estimate/time_model.h"
#include "planner/planner.h"

namespace nqd::planner {
namespace {

Config loaded(const std::string& parallel) {
  const LoadedConfig result = load_config_text(
      "model: {preset: llama3-8b}\ncluster: {preset: dgx-h100, nodes: 1}\nparallel: " + parallel +
          "\ntrain: {global_batch_size: 8}\nstack: {preset: torchtitan-2024}\n",
      "test.yaml", {});
  for (const Diagnostic& diagnostic : result.diagnostics) INFO(diagnostic.message);
  REQUIRE(!has_errors(result.diagnostics));
  return result.config;
}

StepTime step_of(const Config& config) { return TimeModel(config).step(candidate_of(config)); }

double tensor_s(const StepTime& time) {
  return time.groups[static_cast<std::size_t>(CommGroup::kTp)].exposed_s;
}

TEST_CASE("asynchronous tensor parallelism hides all but a piece behind the products") {
  Config config = loaded("{tp: 8, sequence_parallel: true}");
  const StepTime plain = step_of(config);
  config.parallel.async_tensor = true;
  const StepTime pieces = step_of(config);
  const GroupTime& group = pieces.groups[static_cast<std::size_t>(CommGroup::kTp)];
  CHECK(tensor_s(pieces) < tensor_s(plain));
  CHECK(pieces.step_s < plain.step_s);
  // Two sums of three are exposed at most; of those at least one piece in eight.
  CHECK(group.time_s == plain.groups[static_cast<std::size_t>(CommGroup::kTp)].time_s);
  CHECK(tensor_s(pieces) >= 0.6 * tensor_s(plain) / 8);
  // Products that take no time hide nothing but what a stack hides anyway.
  config.cluster.gemm_flops = 1e30;
  config.cluster.device.gemm_fixed_s = 0;
  config.cluster.memory_bandwidth_bytes_per_s = 1e30;
  CHECK(tensor_s(step_of(config)) > 0.6 * tensor_s(plain));
}

TEST_CASE("eager kernels move more bytes, a fused loss fewer") {
  Config config = loaded("{dp: 8, engine: zero3}");
  const double fused = step_of(config).step_s;
  config.train.fused_kernels = false;
  const double eager = step_of(config).step_s;
  CHECK(eager > fused);
  config.stack.eager_traffic = 1;
  CHECK(step_of(config).step_s == fused);
  config.train.fused_kernels = true;
  config.train.fused_loss = true;
  const double loss = step_of(config).step_s;
  CHECK(loss < fused);
  config.stack.fused_loss_bytes = config.stack.loss_bytes;
  CHECK(step_of(config).step_s == fused);
}

TEST_CASE("an offloaded optimizer pays for the way to the host and for its processor") {
  Config config = loaded("{dp: 8, engine: zero2}");
  config.train.optimizer.offload = true;
  config.stack.host_step_s = 0;
  config.cluster.fabric.host_link_bandwidth = 50e9;
  config.cluster.fabric.host_memory_bandwidth = 20e9;
  const auto elements = static_cast<double>(make_plan(config).parameters) / 8;
  // 2 bytes of gradient there, 2 of weight back, and 28 on the host.
  CHECK(step_of(config).optimizer_s ==
        doctest::Approx(elements * (4 / 50e9 + 28 / 20e9)).epsilon(1e-6));
  Config device = config;
  device.train.optimizer.offload = false;
  CHECK(step_of(device).step_s < step_of(config).step_s);
}

TEST_CASE("a scattered pipeline message is a tp-th, and is gathered on arrival") {
  Config config = loaded("{tp: 4, pp: 2}");
  config.stack.scatter_messages = false;
  TimeModel whole(config);
  const double send = whole.slot(candidate_of(config), 0, 0).send_s;
  const double bytes = make_plan(config).communication.back().bytes_sent_per_rank;
  config.stack.scatter_messages = true;
  TimeModel parts(config);
  CHECK(parts.slot(candidate_of(config), 0, 0).send_s != send);
  const Plan plan = make_plan(config);
  const auto pp = std::find_if(plan.communication.begin(), plan.communication.end(),
                               [](const GroupTraffic& traffic) { return traffic.group == "pp"; });
  REQUIRE(pp != plan.communication.end());
  CHECK(pp->bytes_sent_per_rank == doctest::Approx(bytes / 4));
}

}  // namespace
}  // namespace nqd::planner
