#include "planner/estimate/time_model.h"

#include <doctest/doctest.h>

#include <cmath>
#include <string>

#include "planner/config/config.h"
#include "planner/mesh/fabric.h"
#include "planner/planner.h"
#include "planner/schedule/closed_form.h"

namespace nqd::planner {
namespace {

Config loaded(const std::string& text) {
  const LoadedConfig result = load_config_text(text, "test.yaml", {});
  for (const Diagnostic& diagnostic : result.diagnostics) INFO(diagnostic.message);
  REQUIRE(!has_errors(result.diagnostics));
  return result.config;
}

// 96 layers, so that 2, 4 and 8 stages are equal.
Config gpt3() {
  return loaded(
      "model: {preset: gpt3-175b}\n"
      "cluster: {preset: dgx-a100, nodes: 64}\n"
      "parallel: {tp: 8, pp: 8, dp: 8, order: tp-cp-dp-pp}\n"
      "train: {global_batch_size: 512, precision: bfloat16, recompute: full}\n"
      "stack: {preset: megatron-2022}\n");
}

StepTime step_of(const Config& config) { return TimeModel(config).step(candidate_of(config)); }

double exposed_of(const StepTime& time, CommGroup group) {
  return time.groups[static_cast<std::size_t>(group)].exposed_s;
}

TEST_CASE("a step is the sum of its parts, and exposed time the sum over groups") {
  for (const Engine engine : {Engine::kDdp, Engine::kZero1, Engine::kZero3, Engine::kHsdp}) {
    Config config = gpt3();
    config.parallel.engine = engine;
    const StepTime time = step_of(config);
    REQUIRE(time.known);
    CHECK(time.step_s == doctest::Approx(time.compute_s + time.exposed_s + time.bubble_s +
                                         time.optimizer_s + time.jitter_s));
    double exposed = 0;
    for (const GroupTime& group : time.groups) exposed += group.exposed_s;
    CHECK(time.exposed_s == doctest::Approx(exposed));
    CHECK(time.host_s <= time.compute_s);
    CHECK(time.forward_s < time.backward_s);
  }
}

TEST_CASE("groups of one rank cost nothing") {
  Config config = gpt3();
  config.parallel.tp = 1;
  config.parallel.pp = 1;
  config.parallel.dp = 1;
  config.train.global_batch_size = 8;
  const StepTime time = step_of(config);
  REQUIRE(time.known);
  CHECK(time.exposed_s == 0);
  CHECK(time.bubble_s == 0);
  CHECK(time.jitter_s == 0);
  for (const GroupTime& group : time.groups) CHECK(group.time_s == 0);
}

TEST_CASE("faster hardware is never slower") {
  const Config base = gpt3();
  const double before = step_of(base).step_s;
  const auto faster = [&](auto change) {
    Config config = base;
    change(config.cluster);
    CHECK(step_of(config).step_s < before);
  };
  faster([](ClusterSpec& c) { c.peak_flops *= 2; });
  faster([](ClusterSpec& c) { c.memory_bandwidth_bytes_per_s *= 2; });
  faster([](ClusterSpec& c) { c.inter_node.bandwidth_bytes_per_s *= 2; });
  faster([](ClusterSpec& c) {
    for (double& rate : c.fabric.scale_up_bandwidths) rate *= 2;
  });
  faster([](ClusterSpec& c) { c.fabric.slot_latency_s = 0; });
  faster([](ClusterSpec& c) { c.gemm_flops = 300e12; });
  Config oversubscribed = base;
  oversubscribed.cluster.oversubscription = 4;
  CHECK(step_of(oversubscribed).step_s > before);
}

TEST_CASE("recomputation costs a forward, of the attention core alone when selective") {
  Config config = gpt3();
  const StepTime full = step_of(config);
  config.train.recompute = Recompute::kSelective;
  const StepTime selective = step_of(config);
  config.train.recompute = Recompute::kNone;
  const StepTime none = step_of(config);
  CHECK(none.forward_s == full.forward_s);
  CHECK(none.step_s < selective.step_s);
  CHECK(selective.step_s < full.step_s);
  CHECK(full.backward_s - none.backward_s < 1.01 * full.forward_s);
}

TEST_CASE("with equal stages the bubble is the closed form's") {
  Config config = gpt3();
  // Without embedding and head all stages are alike.
  config.model.vocab = 1;
  config.parallel.tp = 1;
  config.parallel.dp = 1;
  config.train.global_batch_size = 32;
  config.cluster.gpus_per_node = 8;
  config.stack = StackSpec{};
  for (const Schedule schedule : {Schedule::kGPipe, Schedule::k1F1B, Schedule::kZbH1}) {
    config.parallel.schedule = schedule;
    const StepTime time = step_of(config);
    const ScheduleSpec spec{schedule, 8, 32, 1};
    TimeModel model(config);
    const TimeModel::SlotTimes slot = model.slot(candidate_of(config), 3, 0);
    const PhaseTimes phases{slot.forward_s, slot.backward_input_s, slot.backward_weight_s};
    CHECK(time.bubble_s == doctest::Approx(bubble_seconds(spec, phases)).epsilon(2e-3));
  }
}

TEST_CASE("slots of a stage's chunks add up to its micro-batch") {
  Config config = gpt3();
  config.parallel.vpp = 3;
  config.parallel.schedule = Schedule::kInterleaved;
  config.stack.host_layer_s = 0;
  config.stack.host_micro_batch_s = 0;
  config.cluster.fabric.slot_latency_s = 0;
  TimeModel model(config);
  const Candidate candidate = candidate_of(config);
  double last = 0;
  for (std::int32_t chunk = 0; chunk < 3; ++chunk) {
    const TimeModel::SlotTimes slot = model.slot(candidate, 7, chunk);
    last += slot.forward_s + slot.backward_input_s + slot.backward_weight_s;
    CHECK(slot.send_s > 0);
  }
  const StepTime time = model.step(candidate);
  CHECK(last == doctest::Approx(time.forward_s + time.backward_s));
}

TEST_CASE("what was asked before does not change an answer") {
  const Config config = gpt3();
  TimeModel used(config);
  Candidate candidate = candidate_of(config);
  for (const std::int32_t tp : {1, 2, 4, 8}) {
    for (const std::int32_t pp : {1, 2, 4, 6, 8, 12}) {
      for (const std::int32_t size : {1, 2, 4}) {
        candidate.tp = tp;
        candidate.pp = pp;
        candidate.micro_batch_size = size;
        candidate.micro_batches = 64 / size;
        CHECK(used.step(candidate).step_s == TimeModel(config).step(candidate).step_s);
      }
    }
  }
}

TEST_CASE("a vocabulary that is no multiple of 8 slows the head unless it is split") {
  Config aligned = gpt3();
  aligned.parallel.tp = 1;
  aligned.model.vocab = 50256;
  Config odd = aligned;
  odd.model.vocab = 50257;
  CHECK(step_of(odd).step_s > 1.002 * step_of(aligned).step_s);
  odd.parallel.tp = 8;
  aligned.parallel.tp = 8;
  CHECK(step_of(odd).step_s == doctest::Approx(step_of(aligned).step_s).epsilon(1e-4));
}

TEST_CASE("experts: exchanged among nodes they cost more than inside a domain") {
  Config config = loaded(
      "model: {preset: mixtral-8x7b}\n"
      "cluster: {preset: dgx-h100, nodes: 8}\n"
      "parallel: {dp: 64, ep: 8, expert_tp: 1, order: tp-cp-dp-pp, engine: zero1}\n"
      "train: {global_batch_size: 256}\n"
      "stack: {preset: megatron-core-2025}\n");
  const StepTime near = step_of(config);
  REQUIRE(near.known);
  CHECK(exposed_of(near, CommGroup::kEp) > 0);
  config.cluster.nvlink_domain = 4;
  CHECK(exposed_of(step_of(config), CommGroup::kEp) > exposed_of(near, CommGroup::kEp));
  config.parallel.ep = 1;
  CHECK(exposed_of(step_of(config), CommGroup::kEp) == 0);
}

TEST_CASE("a token goes once to a node for all its experts there") {
  // 8 experts a token over 4 domains of 8 ranks: 24 of 32 copies leave, for 4·(1 − (3/4)^8) nodes.
  Config config = loaded(
      "model: {preset: deepseek-v3}\n"
      "cluster: {preset: dgx-h100, nodes: 32}\n"
      "parallel: {dp: 256, ep: 32, expert_tp: 1, order: tp-cp-dp-pp, engine: zero1}\n"
      "train: {global_batch_size: 4096, precision: bfloat16}\n"
      "stack: {preset: megatron-core-2025}\n");
  const auto busy = [&](bool share) {
    config.stack.experts_share_copies = share;
    config.cluster.fabric.network_latency_s = 0;
    return step_of(config).groups[static_cast<std::size_t>(CommGroup::kEp)].time_s;
  };
  CHECK(busy(true) / busy(false) == doctest::Approx(4 * (1 - std::pow(0.75, 8)) / 8).epsilon(1e-9));
}

TEST_CASE("8-bit products run at their stack's share, never slower than 16-bit ones") {
  const auto compute = [](double share) {
    Config config = loaded(
        "model: {preset: llama2-7b}\n"
        "cluster: {preset: dgx-h100, nodes: 1}\n"
        "parallel: {dp: 8}\n"
        "train: {global_batch_size: 8, precision: fp8}\n"
        "stack: {preset: nemo-2024}\n");
    config.stack.fp8_share = share;
    return step_of(config).compute_s;
  };
  CHECK(compute(0.7) > compute(1));
  CHECK(compute(0.4) == compute(0.3));
}

TEST_CASE("rings that pass several devices of a node meet in the adapters that these share") {
  const auto reduce_s = [](std::int64_t tp, std::int64_t adapters) {
    Config config = gpt3();
    config.parallel.tp = tp;
    config.parallel.dp = 64 / tp;
    config.cluster.nics_per_node = adapters;
    config.cluster.fabric.shared_adapter_share = 0.5;
    config.cluster.fabric.network_latency_s = 0;
    config.cluster.fabric.scale_up_latencies.clear();
    config.cluster.intra_node.alpha_s = 0;
    return step_of(config).groups[static_cast<std::size_t>(CommGroup::kDp)].time_s;
  };
  CHECK(reduce_s(2, 4) == doctest::Approx(2 * reduce_s(2, 8)));
  CHECK(reduce_s(8, 4) == reduce_s(8, 8));
}

TEST_CASE("a missing rate makes the step unknown") {
  Config config = gpt3();
  config.cluster.peak_flops = 0;
  CHECK(!step_of(config).known);
  config = gpt3();
  config.cluster.inter_node.bandwidth_bytes_per_s = 0;
  CHECK(!step_of(config).known);
  CHECK(step_of(config).step_s == 0);
}

TEST_CASE("rings inside a domain cost what NCCL was measured to") {
  const ClusterSpec a100 = gpt3().cluster;
  // nccl-tests all_reduce of 1 GiB among 8 and 2 ranks of one node, published with vTrain.
  CHECK(all_reduce_cost(a100, place(a100, 8, 1), 1).seconds(1 << 30) ==
        doctest::Approx(0.008193).epsilon(0.02));
  CHECK(all_reduce_cost(a100, place(a100, 2, 1), 1).seconds(1 << 30) ==
        doctest::Approx(0.0054428).epsilon(0.04));
  CHECK(all_gather_cost(a100, place(a100, 8, 1), 1).seconds(1 << 30) ==
        doctest::Approx(0.0041).epsilon(0.02));
}

TEST_CASE("places: stride, domain and ends of a group") {
  ClusterSpec cluster;
  cluster.gpus_per_node = 8;
  CHECK(place(cluster, 8, 1).inside());
  CHECK(place(cluster, 2, 7).inside());
  CHECK(!place(cluster, 2, 8).inside());
  CHECK(place(cluster, 16, 2).together == 4);
  CHECK(place(cluster, 16, 16).together == 1);
  cluster.nvlink_domain = 72;
  CHECK(place(cluster, 64, 1).inside());
}

}  // namespace
}  // namespace nqd::planner
