#include "planner/reference/step_time.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "planner/plan/pipeline.h"
#include "planner/plan/time.h"
#include "planner/planner.h"
#include "planner/reference/traffic.h"
#include "planner/reference/work.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

// All kernels cost a microsecond a call or item, and a nanosecond a unit.
EngineRates made_up(const Config& config, double in_place = 1) {
  EngineRates rates;
  rates.numerics = config.numerics.mode;
  rates.precision = config.train.precision;
  rates.threads = config.train.threads;
  rates.ranks = ranks_on_host(config);
  rates.in_place = in_place;
  for (std::size_t i = 0; i < kKernels; ++i) {
    rates.kernels.push_back({std::string(name(static_cast<Kernel>(i))), 1e-6, 1e-9});
  }
  return rates;
}

Config timed(std::int64_t dp = 1) {
  Config config = cpu_config(dp);
  config.cluster.intra_node = {1e-6, 1e10};
  config.cluster.engine_rates = {made_up(config)};
  return config;
}

double step_s(const Config& config) { return make_plan(config).time.step_s; }

std::vector<std::string> codes(const Plan& plan) {
  std::vector<std::string> found;
  for (const Diagnostic& diagnostic : plan.diagnostics) found.push_back(diagnostic.code);
  return found;
}

bool has(const Plan& plan, const std::string& code) {
  const std::vector<std::string> found = codes(plan);
  return std::find(found.begin(), found.end(), code) != found.end();
}

TEST_CASE("seconds are calls times the law, times what a step in place costs") {
  const EngineRates rates = made_up(cpu_config(1), 1.5);
  std::vector<Kernel> missing;
  const std::vector<KernelCall> calls = {{Kernel::kGelu, 10, 100, 0, 3},
                                         {Kernel::kForwardProduct, 2, 3, 4, 0.5}};
  const double expected = 3 * (1e-6 + 1000e-9) + 0.5 * (6e-6 + 48e-9);
  CHECK(kernel_seconds(rates, calls, true, missing) == doctest::Approx(1.5 * expected));
  CHECK(missing.empty());
}

TEST_CASE("a step on one rank is its kernels, and needs no rate of products or memory") {
  const Config config = timed();
  const EngineRates& rates = config.cluster.engine_rates[0];
  const std::vector<LocalUnit> units = reference_stages(config)[0].units;
  const UnitWork work = chunk_work(config, units);
  std::vector<Kernel> missing;
  const auto seconds = [&](const std::vector<KernelCall>& calls) {
    return kernel_seconds(rates, calls, true, missing);
  };
  const Plan plan = make_plan(config);
  CHECK(plan.time.compute_s ==
        doctest::Approx(3 * (seconds(work.forward) + seconds(work.backward_input) +
                             seconds(work.backward_weight))));
  CHECK(plan.time.optimizer_s == doctest::Approx(seconds(update_work(config, units))));
  CHECK(plan.time.exposed_communication_s == 0);
  CHECK(plan.time.bubble_s == 0);
  CHECK(plan.time.step_s == doctest::Approx(plan.time.compute_s + plan.time.optimizer_s));
  CHECK_FALSE(has(plan, "NQD1306"));
}

TEST_CASE("more work takes longer, shared keys less") {
  const Config config = timed();
  const double base = step_s(config);
  const auto changed = [&](const auto& change) {
    Config other = config;
    change(other);
    return step_s(other);
  };
  CHECK(changed([](Config& c) { ++c.model.layers; }) > base);
  CHECK(changed([](Config& c) { c.model.sequence *= 2; }) > 2 * base);
  CHECK(changed([](Config& c) { c.model.vocab *= 2; }) > base);
  CHECK(changed([](Config& c) { c.train.global_batch_size *= 2; }) > 1.5 * base);
  CHECK(changed([](Config& c) { c.train.recompute = Recompute::kFull; }) > base);
  CHECK(changed([](Config& c) { c.train.dropout = true; }) > base);
  const auto with_keys = [&](std::int64_t heads) {
    return changed([=](Config& c) { c.model.kv_heads = heads; });
  };
  CHECK(with_keys(1) < with_keys(2));
  CHECK(changed([](Config& c) { c.cluster.engine_rates[0].in_place = 2; }) ==
        doctest::Approx(2 * base));
}

TEST_CASE("the rates of another kind of run are not taken, those of other ranks with a warning") {
  Config config = timed();
  REQUIRE(engine_rates(config) != nullptr);
  config.train.threads = 2;
  CHECK(engine_rates(config) == nullptr);
  CHECK(step_s(config) == 0);
  config.cluster.engine_rates[0].threads = 2;
  CHECK(step_s(config) > 0);
  config.numerics.mode = collectives::Numerics::kCanonical;
  CHECK(engine_rates(config) == nullptr);
  config.cluster.engine_rates[0].numerics = config.numerics.mode;
  CHECK_FALSE(has(make_plan(config), "NQD1305"));
  EngineRates two = config.cluster.engine_rates[0];
  two.ranks = 4;
  config.cluster.engine_rates.push_back(two);
  CHECK(engine_rates(config)->ranks == 1);
  config.cluster.engine_rates.erase(config.cluster.engine_rates.begin());
  CHECK(engine_rates(config)->ranks == 4);
  CHECK(has(make_plan(config), "NQD1305"));
}

TEST_CASE("a kernel without a rate leaves the time unknown and names itself") {
  Config config = timed();
  auto& kernels = config.cluster.engine_rates[0].kernels;
  std::erase_if(kernels, [](const KernelRate& rate) { return rate.kernel == "gelu"; });
  const ReferenceTime time = reference_time(config);
  CHECK_FALSE(time.known);
  REQUIRE(time.diagnostics.size() == 1);
  CHECK(time.diagnostics[0].code == "NQD1306");
  CHECK(time.diagnostics[0].message.find("gelu") != std::string::npos);
  CHECK(step_s(config) == 0);
  config.model.gated_mlp = true;
  CHECK(step_s(config) > 0);
}

TEST_CASE("without a CPU of its own a collective takes the time from the computation") {
  Config config = timed(2);
  CHECK(progress_has_cpu(config));
  const auto sums = [&] {
    const std::vector<GroupTraffic> rows = make_plan(config).communication;
    return *std::find_if(rows.begin(), rows.end(),
                         [](const GroupTraffic& row) { return row.group == "dp"; });
  };
  CHECK(sums().exposed_s < sums().time_s);
  const double hidden = step_s(config);
  config.cluster.engine_rates[0].cpus = 4;
  CHECK(progress_has_cpu(config));
  CHECK(step_s(config) == hidden);
  config.cluster.engine_rates[0].cpus = 3;
  CHECK_FALSE(progress_has_cpu(config));
  CHECK(sums().exposed_s == sums().time_s);
  CHECK(step_s(config) > hidden);
}

TEST_CASE("a pipeline waits as its schedule says, and messages add to it") {
  Config config = timed();
  config.parallel.pp = 3;
  config.cluster.gpus_per_node = 3;
  config.train.global_batch_size = 4 * config.train.micro_batch_size;
  config.cluster.engine_rates[0].ranks = 3;
  const ReferenceTime compute = reference_time(config);
  REQUIRE(compute.chunks.size() == 3);
  CommunicationPlan free;
  const TimePlan time = plan_reference_time(config, compute, free);
  // gpt with three layers: the last stage, with the head, is the slowest of 1F1B.
  PhaseTimes others = {};
  for (std::size_t chunk : {0, 1}) {
    others.forward += compute.chunks[chunk].forward;
    others.backward_input += compute.chunks[chunk].backward_input;
    others.backward_weight += compute.chunks[chunk].backward_weight;
  }
  CHECK(time.compute_s == doctest::Approx(4 * compute.chunks[2].total()));
  CHECK(time.compute_s + time.bubble_s ==
        doctest::Approx(step_seconds(schedule_spec(config), compute.chunks[2], others)));

  GroupTraffic messages;
  messages.group = "pp";
  messages.calls = 8;
  messages.time_s = messages.exposed_s = 8e-6;
  free.traffic = {messages};
  free.exposed_in_micro_batches_s = 8e-6;
  const TimePlan late = plan_reference_time(config, compute, free);
  // Two boundaries there and two back are on the way of the first micro-batch and the last.
  CHECK(late.exposed_communication_s == doctest::Approx(4e-6));
  CHECK(late.bubble_s == doctest::Approx(time.bubble_s));
  CHECK(late.step_s == doctest::Approx(time.step_s + 4e-6));
}

}  // namespace
}  // namespace nqd::planner
