// Figures that two parts of the planner give are the same figure, and what costs something in one
// place costs it in the other.
#include <doctest/doctest.h>

#include <algorithm>
#include <string>

#include "planner/estimate/time_model.h"
#include "planner/mesh/fabric.h"
#include "planner/mesh/rank_map.h"
#include "planner/plan/time.h"
#include "planner/planner.h"
#include "tests/planner/consistency/shipped_configs.h"

namespace nqd::planner {
namespace {

Config loaded(const std::string& text) {
  const LoadedConfig result = load_config_text(text, "test.yaml", {});
  for (const Diagnostic& diagnostic : result.diagnostics) INFO(diagnostic.message);
  REQUIRE(!has_errors(result.diagnostics));
  return result.config;
}

StepTime step_of(const Config& config) { return TimeModel(config).step(candidate_of(config)); }

const GroupTime& group_of(const StepTime& time, CommGroup group) {
  return time.groups[static_cast<std::size_t>(group)];
}

const GroupTraffic& traffic_of(const Plan& plan, const std::string& group) {
  const auto found =
      std::find_if(plan.communication.begin(), plan.communication.end(),
                   [&](const GroupTraffic& traffic) { return traffic.group == group; });
  REQUIRE(found != plan.communication.end());
  return *found;
}

Config mixtral(const std::string& parallel) {
  return loaded("model: {preset: mixtral-8x7b}\ncluster: {preset: dgx-h100, nodes: 8}\nparallel: " +
                parallel + "\ntrain: {global_batch_size: 256}\n");
}

TEST_CASE("experts that are shared among replicas lie pp apart under tp-cp-pp-dp") {
  // Two replicas of one stage are 4·8 ranks apart: never in one node.
  const Config inner = mixtral("{dp: 8, pp: 8, ep: 8, engine: zero1}");
  const Config outer = mixtral("{dp: 8, pp: 8, ep: 8, engine: zero1, order: tp-cp-dp-pp}");
  CHECK(ep_group(inner.parallel).stride == 8);
  CHECK(ep_group(outer.parallel).stride == 1);
  CHECK(group_of(step_of(inner), CommGroup::kEp).exposed_s >
        3 * group_of(step_of(outer), CommGroup::kEp).exposed_s);
  // The rank map is where ranks really are.
  CHECK(place_in_stage(inner.cluster, 8, 1, 1, 8).together == 1);
  CHECK(place_in_stage(inner.cluster, 8, 1, 4, 32).together == 4);
  CHECK(place_in_stage(inner.cluster, 4, 2, 8, 64).together == 4);
  CHECK(place_in_stage(inner.cluster, 2, 8, 8, 64).together == 1);
  // Six ranks over replicas of four: two lie beside the first replica's, in the node or not.
  CHECK(place_in_stage(inner.cluster, 6, 1, 4, 4).size == 6);
  CHECK(place_in_stage(inner.cluster, 6, 1, 4, 4).together == 6);
  CHECK(place_in_stage(inner.cluster, 6, 1, 4, 32).together == 4);
  CHECK(place_in_stage(inner.cluster, 12, 6, 4, 4).together == 2);
}

TEST_CASE("what was asked of one pipeline is not the answer for another") {
  const Config config = mixtral("{dp: 8, pp: 8, ep: 8, engine: zero1}");
  TimeModel used(config);
  Candidate candidate = candidate_of(config);
  for (const std::int32_t pp : {1, 2, 4, 8}) {
    candidate.pp = pp;
    candidate.dp = 64 / pp;
    candidate.micro_batches = 256 / candidate.dp;
    CHECK(used.step(candidate).step_s == TimeModel(config).step(candidate).step_s);
  }
}

TEST_CASE("experts: a rank sends the copies of its own tokens, in bytes and in seconds") {
  const Config one = mixtral("{dp: 16, tp: 4, ep: 8, expert_tp: 1, sequence_parallel: true}");
  const Config four = mixtral("{dp: 16, tp: 4, ep: 8, expert_tp: 4, sequence_parallel: true}");
  // s·top_k·h/tp of 16-bit numbers, seven eighths of which leave the rank; 4 exchanges a layer.
  const double sent = 4096.0 * 2 * 4096 / 4 * 2 * 7 / 8 * 4 * 32 * 16;
  CHECK(traffic_of(make_plan(one), "ep").bytes_sent_per_rank == doctest::Approx(sent));
  CHECK(traffic_of(make_plan(four), "ep").bytes_sent_per_rank == doctest::Approx(sent));
  // Without latency and inside one domain seconds follow bytes alone.
  const auto busy = [](Config config) {
    config.cluster.nvlink_domain = 64;
    config.cluster.intra_node.alpha_s = 0;
    config.cluster.fabric.scale_up_latencies.clear();
    return group_of(step_of(config), CommGroup::kEp).time_s;
  };
  CHECK(busy(one) == doctest::Approx(busy(four)));
}

TEST_CASE("context parallelism: recomputation sends keys and values round once more") {
  Config config = loaded(
      "model: {preset: llama3-8b}\ncluster: {preset: dgx-h100, nodes: 2}\n"
      "parallel: {dp: 4, cp: 4, engine: zero1}\ntrain: {global_batch_size: 16}\n");
  const auto measure = [&](Recompute recompute) {
    config.train.recompute = recompute;
    const Plan plan = make_plan(config);
    return std::pair(traffic_of(plan, "cp").bytes_sent_per_rank,
                     group_of(step_of(config), CommGroup::kCp).time_s);
  };
  const auto none = measure(Recompute::kNone);
  for (const Recompute recompute : {Recompute::kSelective, Recompute::kFull}) {
    const auto more = measure(recompute);
    CHECK(more.first / none.first == doctest::Approx(4.0 / 3));
    CHECK(more.second / none.second == doctest::Approx(4.0 / 3));
  }
}

TEST_CASE("zero3 exposes no less than ddp on the same mesh") {
  int compared = 0;
  for (const Config& shipped : shipped_configs()) {
    Config config = shipped;
    config.parallel.hsdp_shard = 0;
    config.parallel.engine = Engine::kDdp;
    const StepTime ddp = step_of(config);
    if (!ddp.known || config.parallel.dp * config.parallel.cp == 1) continue;
    CAPTURE(config.source);
    config.parallel.engine = Engine::kZero3;
    CHECK(group_of(step_of(config), CommGroup::kDp).exposed_s >=
          group_of(ddp, CommGroup::kDp).exposed_s);
    ++compared;
  }
  CHECK(compared > 20);
}

TEST_CASE("every shipped model with a known step has a utilisation") {
  int others = 0;
  for (const Config& config : shipped_configs()) {
    const Plan plan = make_plan(config);
    if (plan.time.step_s <= 0 || config.cluster.peak_flops <= 0) continue;
    CAPTURE(config.source);
    CHECK(plan.mfu > 0);
    CHECK(plan.mfu < 1);
    CHECK(plan.hfu >= plan.mfu);
    others += is_transformer(config.model) ? 0 : 1;
  }
  CHECK(others >= 5);
}

TEST_CASE("a convolution's FLOPs: EDSR's forward is two a weight and pixel") {
  ModelSpec model;
  model.family = "custom";
  model.blocks = {{.name = "a", .count = 3, .parameters = 10, .forward_flops = 1e9}};
  CHECK(sample_flops(model, Recompute::kNone).model == 9e9);
  CHECK(sample_flops(model, Recompute::kFull).hardware == 12e9);
}

TEST_CASE("the warning about the bubble judges the stages that the plan has") {
  // Five layers on four stages: equal stages would wait for 9 %, these for much more.
  Config config = loaded(
      "model: {layers: 5, hidden: 4096, heads: 32, vocab: 1024, sequence: 2048}\n"
      "cluster: {preset: dgx-h100, nodes: 1}\n"
      "parallel: {dp: 2, pp: 4, engine: zero1, pipeline_split: [2, 1, 1, 1]}\n"
      "train: {global_batch_size: 16}\n");
  const Plan plan = make_plan(config);
  CHECK(plan.time.bubble_share() == plan.time.bubble_s / plan.time.step_s);
  CHECK(plan.pipeline.bubble_fraction == doctest::Approx(3.0 / 11));
  const bool warned = std::any_of(plan.diagnostics.begin(), plan.diagnostics.end(),
                                  [](const Diagnostic& d) { return d.code == "NQD1302"; });
  CHECK(warned == (plan.time.bubble_share() > 0.2));
  // The slowest of these stages waits less than an equal one.
  CHECK(plan.time.bubble_share() < plan.pipeline.bubble_fraction);
}

TEST_CASE("a bubble of unequal stages is not blamed on the number of micro-batches") {
  const Config config = loaded(
      "model: {preset: llama3-8b}\n"
      "cluster: {preset: dgx-h100, nodes: 4}\n"
      "parallel: {pp: 4, vpp: 2, schedule: interleaved, engine: zero1,\n"
      "           pipeline_split: [1, 6, 1, 6, 6, 1, 10, 1]}\n"
      "train: {global_batch_size: 512, micro_batch_size: 1, recompute: full}\n");
  const Plan plan = make_plan(config);
  REQUIRE(plan.pipeline.bubble_fraction < 0.05);
  const auto warning = std::find_if(plan.diagnostics.begin(), plan.diagnostics.end(),
                                    [](const Diagnostic& d) { return d.code == "NQD1302"; });
  REQUIRE(warning != plan.diagnostics.end());
  CHECK(warning->path == "parallel.pipeline_split");
  CHECK(warning->hint.find("micro-batches") == std::string::npos);
}

}  // namespace
}  // namespace nqd::planner
