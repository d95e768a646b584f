// The numbers that define the product, to the printed digit; what other tests of this folder's
// neighbours check already is not repeated here.
#include <doctest/doctest.h>

#include <cmath>

#include "base/units.h"
#include "planner/config/config.h"
#include "planner/formulas/resilience.h"
#include "planner/formulas/state.h"
#include "planner/mesh/group_cost.h"
#include "planner/plan/pipeline.h"

namespace nqd::planner {
namespace {

double rounded(double value, int digits) {
  const double scale = std::pow(10.0, digits);
  return std::round(value * scale) / scale;
}

double state(double parameters, Engine engine, std::int64_t ranks) {
  return state_formula(TrainSpec{}, engine, ranks, 0).bytes(parameters);
}

TEST_CASE("state memory: each engine's formula, 8e9 parameters on four ranks") {
  struct Row {
    Engine engine;
    double replicated, sharded, gb;
  };
  for (const Row& row : {Row{Engine::kDdp, 16, 0, 128}, Row{Engine::kZero1, 4, 12, 56},
                         Row{Engine::kZero2, 2, 14, 44}, Row{Engine::kZero3, 0, 16, 32}}) {
    CAPTURE(name(row.engine));
    const StateFormula formula = state_formula(TrainSpec{}, row.engine, 4, 0);
    CHECK(formula.replicated == row.replicated);
    CHECK(formula.sharded == row.sharded);
    CHECK(formula.bytes(8e9) == row.gb * kGB);
  }
}

TEST_CASE("state memory: other layouts") {
  TrainSpec train;
  train.gradient_precision = Precision::kFloat32;
  CHECK(state_formula(train, Engine::kDdp, 1, 0).replicated == 18);
  train.precision = Precision::kFloat32;
  CHECK(state_formula(train, Engine::kDdp, 1, 0).replicated == 16);
  const StateFormula zero1 = state_formula(train, Engine::kZero1, 4, 0);
  CHECK(zero1.replicated == 8);
  CHECK(zero1.sharded == 8);
  TrainSpec with_ema;
  with_ema.ema = true;
  CHECK(state_formula(with_ema, Engine::kDdp, 1, 0).replicated == 20);
  CHECK(state_formula(with_ema, Engine::kZero1, 8, 0).sharded == 16);
  const StateFormula hsdp = state_formula(TrainSpec{}, Engine::kHsdp, 64, 8);
  CHECK(hsdp.replicated == 0);
  CHECK(hsdp.shards == 8);
}

TEST_CASE("state memory: 70e9, 175e9, 405e9 and 7e9 parameters") {
  CHECK(state(70e9, Engine::kDdp, 64) == 1120 * kGB);
  CHECK(rounded(state(70e9, Engine::kZero1, 64) / kGB, 2) == 293.13);
  CHECK(rounded(state(70e9, Engine::kZero2, 64) / kGB, 2) == 155.31);
  CHECK(state(70e9, Engine::kZero3, 64) == 17.5 * kGB);
  CHECK(state(175e9, Engine::kDdp, 1) == 2800 * kGB);
  CHECK(state(405e9, Engine::kDdp, 1) == 6480 * kGB);
  CHECK(rounded(state(7e9, Engine::kZero3, 8) / kGiB, 2) == 13.04);
}

TEST_CASE("state memory: 175e9 needs 35 devices of 80 GB, which leaves nothing") {
  const StateFormula zero3 = state_formula(TrainSpec{}, Engine::kZero3, 8, 0);
  CHECK(min_shards(zero3, 175e9, 80 * kGB) == 35);
  const auto left_gb = [](std::int64_t ranks) {
    return rounded(80 - state(175e9, Engine::kZero3, ranks) / kGB, 2);
  };
  CHECK(left_gb(35) == 0);
  CHECK(left_gb(40) == 10);
  CHECK(left_gb(48) == 21.67);
  CHECK(left_gb(64) == 36.25);
  CHECK_FALSE(min_shards(state_formula(TrainSpec{}, Engine::kDdp, 8, 0), 175e9, 80 * kGB));
  CHECK_FALSE(min_shards(state_formula(TrainSpec{}, Engine::kZero1, 8, 0), 175e9, 80 * kGB));
  CHECK(min_shards(state_formula(TrainSpec{}, Engine::kDdp, 8, 0), 1e9, 80 * kGB) == 1);
}

TEST_CASE("communication: 7e9 16-bit gradients on 400 Gb/s") {
  const double gib[] = {13.04, 19.56, 22.82, 24.45};
  const double seconds[] = {0.280, 0.420, 0.490, 0.525};
  GroupTopology group;
  group.nic_bandwidth_bytes_per_s = 400e9 / 8;
  for (int i = 0; i < 4; ++i) {
    group.ranks = std::int64_t{2} << i;
    const collectives::RankTraffic most =
        collectives::max_traffic(collectives::Collective::kAllReduce, collectives::Algorithm::kRing,
                                 static_cast<std::size_t>(group.ranks), 7'000'000'000, 2);
    CHECK(rounded(static_cast<double>(most.bytes_sent) / kGiB, 2) == gib[i]);
    CHECK(rounded(group_time_s(group, collectives::Collective::kAllReduce,
                               collectives::Algorithm::kRing, 14e9),
                  3) == seconds[i]);
  }
}

TEST_CASE("pipeline: four stages") {
  CHECK(rounded(100 * interleaved_bubble_fraction(4, 4, 1), 1) == 42.9);
  CHECK(rounded(100 * interleaved_bubble_fraction(4, 16, 1), 1) == 15.8);
  CHECK(interleaved_bubble_fraction(4, 4, 1) == 3.0 / 7);
  CHECK(interleaved_bubble_fraction(4, 16, 1) == 3.0 / 19);
  CHECK(micro_batches_for_bubble(4, 0.1) == 27);
}

TEST_CASE("hardware: an H100's ridge is 295 FLOP a byte, an A100's peak 312 TFLOP/s") {
  const auto cluster = [](const std::string& preset) {
    const LoadedConfig loaded = load_config_text(
        "model: {preset: gpt2-124m}\ncluster: {preset: " + preset + "}\n", "golden");
    return loaded.config.cluster;
  };
  const ClusterSpec h100 = cluster("dgx-h100");
  CHECK(h100.peak_flops == 989e12);
  CHECK(h100.memory_bandwidth_bytes_per_s == 3.35e12);
  CHECK(rounded(h100.peak_flops / h100.memory_bandwidth_bytes_per_s, 0) == 295);
  CHECK(h100.intra_node.bandwidth_bytes_per_s == 450e9);
  CHECK(h100.gpus_per_node == 8);
  CHECK(h100.inter_node.bandwidth_bytes_per_s == 50e9);
  CHECK(h100.inter_node.alpha_s >= 2e-6);
  CHECK(h100.inter_node.alpha_s <= 5e-6);
  const ClusterSpec roce = cluster("roce-h100");
  CHECK(roce.inter_node.bandwidth_bytes_per_s >= 12.5e9);
  CHECK(roce.inter_node.bandwidth_bytes_per_s <= 25e9);
  CHECK(roce.inter_node.alpha_s >= 10e-6);
  CHECK(roce.inter_node.alpha_s <= 25e-6);
  CHECK(cluster("dgx-a100").peak_flops == 312e12);
}

TEST_CASE("goodput: 512 devices at $4, 30 minutes between saves of 4") {
  CHECK(cost_of(3600, 512, 4) == 2048);
  CHECK(mean_lost_s(30 * 60) == 15 * 60);
  CHECK(cost_of(mean_lost_s(30 * 60), 512, 4) == 512);
  CHECK(checkpoint_overhead(4, 30) == 4.0 / 34);
  CHECK(rounded(100 * checkpoint_overhead(240, 1800), 1) == 11.8);
}

}  // namespace
}  // namespace nqd::planner
