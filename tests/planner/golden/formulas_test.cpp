#include <doctest/doctest.h>

#include <cmath>
#include <random>

#include "base/units.h"
#include "planner/formulas/fastest.h"
#include "planner/formulas/korthikanti.h"
#include "planner/formulas/resilience.h"

namespace nqd::planner {
namespace {

// Figure 1 of arXiv:2205.05198: parameters and optimizer state at 18 bytes, activations without and
// with selective recomputation under sequence parallelism, in GiB, as its formulas give them; and
// figure 7, read off a plot: percent of tensor parallelism alone.
struct Published {
  GptShape shape;
  GptMesh mesh;
  double state_gib, none_gib, selective_gib;
  double sequence, selective, both, full;
};
const Published kPublished[] = {
    {{48, 6144, 64, 2048}, {4, 8, 1, 1}, 45.5625, 59.25, 9.5625, 66.84, 49.42, 16.18, 7.64},
    {{96, 12288, 96, 2048}, {1, 8, 8, 3}, 45.5625, 66.84375, 12.3515625, 62.04, 56.53, 18.49, 8.71},
    {{105, 20480, 128, 2048},
     {1, 8, 35, 3},
     31.640625,
     114.0234375,
     23.076171875,
     58.31,
     62.04,
     20.27,
     9.42},
    {{128, 25600, 160, 2048},
     {1, 8, 64, 1},
     32.958984375,
     131.25,
     26.5625,
     58.31,
     62.04,
     20.27,
     9.42}};

TEST_CASE("activations of Korthikanti et al., figures 1 and 7") {
  for (const Published& row : kPublished) {
    CAPTURE(row.shape.layers);
    const auto gib = [&](ActivationVariant variant) {
      return activation_bytes(variant, row.shape, row.mesh) / kGiB;
    };
    CHECK(gib(ActivationVariant::kTensor) == doctest::Approx(row.none_gib).epsilon(1e-14));
    CHECK(gib(ActivationVariant::kTensorSequenceSelective) ==
          doctest::Approx(row.selective_gib).epsilon(1e-14));
    const auto h = static_cast<double>(row.shape.hidden);
    const auto ranks = static_cast<double>(row.mesh.tp * row.mesh.pp);
    CHECK(18 * 12 * static_cast<double>(row.shape.layers) * h * h / ranks / kGiB == row.state_gib);
    const auto percent = [&](ActivationVariant variant) {
      return 100 * layer_bytes(variant, row.shape, row.mesh) /
             layer_bytes(ActivationVariant::kTensor, row.shape, row.mesh);
    };
    // A tenth of a point is what can be read off the plot.
    CHECK(std::abs(percent(ActivationVariant::kTensorSequence) - row.sequence) < 0.15);
    CHECK(std::abs(percent(ActivationVariant::kTensorSelective) - row.selective) < 0.15);
    CHECK(std::abs(percent(ActivationVariant::kTensorSequenceSelective) - row.both) < 0.15);
    CHECK(std::abs(percent(ActivationVariant::kFull) - row.full) < 0.15);
  }
}

TEST_CASE("activations beside the layers, by hand: s·b·h = 2·1·4, t = 2") {
  GptShape shape{8, 4, 2, 2, 10};
  GptMesh mesh{1, 2, 1, 1};
  CHECK(outer_bytes(shape, mesh) == 4 + 4 * 4 * (1 + 2.5));
  mesh.pp = 4;
  CHECK(outer_bytes(shape, mesh) == 4 * 4);
  CHECK(layers_in_flight(shape, mesh) == 8);
  mesh.vpp = 2;
  CHECK(layers_in_flight(shape, mesh) == 8 * (1 + 3.0 / 8));
  CHECK(layer_bytes(ActivationVariant::kFullSharded, shape, mesh) ==
        layer_bytes(ActivationVariant::kFull, shape, mesh) / 2);
  shape.vocab = 0;
  CHECK(outer_bytes(shape, mesh) == 0);
}

TEST_CASE("on one rank every variant that keeps scores keeps sbh(34 + 5as/h)") {
  const GptShape shape{1, 64, 4, 32};
  const double whole = 32 * 64 * (34 + 5.0 * 4 * 32 / 64);
  CHECK(layer_bytes(ActivationVariant::kTensor, shape, {}) == whole);
  CHECK(layer_bytes(ActivationVariant::kTensorSequence, shape, {}) == whole);
}

TEST_CASE("Young's and Daly's intervals are where the loss is least") {
  const double save_s = 240;
  const double mtbf_s = 86400;
  CHECK(young_interval_s(save_s, mtbf_s) == std::sqrt(2.0 * 240 * 86400));
  // Daly, table of the paper's own regime: between Young's value minus the save and Young's value.
  const double daly = daly_interval_s(save_s, mtbf_s);
  CHECK(daly < young_interval_s(save_s, mtbf_s));
  CHECK(daly > young_interval_s(save_s, mtbf_s) - save_s);
  CHECK(daly_interval_s(200, 100) == 100);
  // Daly's model of the time that useful work takes, M·e^(R/M)·(e^((τ+δ)/M) − 1)/τ, is least there.
  const auto slowdown = [&](double interval_s) {
    return mtbf_s * std::expm1((interval_s + save_s) / mtbf_s) / interval_s;
  };
  CHECK(slowdown(daly) < slowdown(daly * 0.98));
  CHECK(slowdown(daly) < slowdown(daly * 1.02));
  const Resilience at{save_s, daly, mtbf_s, 600};
  CHECK(goodput(at) == doctest::Approx((1 - save_s / (daly + save_s)) *
                                       (1 - (600 + (daly + save_s) / 2) / mtbf_s)));
  CHECK(goodput({save_s, daly, 10, 600}) == 0);
}

TEST_CASE("fastest by size: ranges are those of the smallest line everywhere") {
  std::mt19937 random(7);
  std::uniform_real_distribution<double> part(0.1, 1);
  for (int round = 0; round < 50; ++round) {
    std::vector<CostLine> lines(1 + round % 7);
    for (CostLine& line : lines) line = {part(random), part(random)};
    const std::vector<FastestRange> ranges = fastest_by_size(lines);
    CHECK(ranges.front().from_bytes == 0);
    CHECK(std::isinf(ranges.back().to_bytes));
    for (std::size_t i = 0; i < ranges.size(); ++i) {
      CAPTURE(i);
      if (i > 0) CHECK(ranges[i].from_bytes == ranges[i - 1].to_bytes);
      const double end = std::min(ranges[i].to_bytes, ranges[i].from_bytes + 100);
      CHECK(end > ranges[i].from_bytes);
      const double middle = (ranges[i].from_bytes + end) / 2;
      const CostLine& best = lines[ranges[i].line];
      for (const CostLine& other : lines) {
        CHECK(best.latency_s + middle * best.s_per_byte <=
              other.latency_s + middle * other.s_per_byte);
      }
    }
  }
  CHECK(fastest_by_size({}).empty());
  CHECK(fastest_by_size({{1, 1}, {1, 1}}).front().line == 0);
}

}  // namespace
}  // namespace nqd::planner
