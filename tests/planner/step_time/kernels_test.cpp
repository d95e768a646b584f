#include "planner/reference/kernels.h"

#include <doctest/doctest.h>

#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"
#include "planner/calibration/calibration.h"
#include "tests/planner/configs.h"
#include "tests/temporary_folder.h"

namespace nqd::planner {
namespace {

TEST_CASE("every kernel has a name of its own that reads back") {
  for (std::size_t i = 0; i < kKernels; ++i) {
    const auto kernel = static_cast<Kernel>(i);
    CHECK(parse_kernel(name(kernel)) == kernel);
  }
  CHECK_FALSE(parse_kernel("step"));
}

TEST_CASE("what the time of a call grows with") {
  const KernelCost product = cost_of({Kernel::kWeightProduct, 3, 5, 7});
  CHECK(product.items == 15);
  CHECK(product.units == 2 * 3 * 5 * 7);
  // 100 tokens are blocks of 48, 48 and 4 queries against 48, 96 and 100 keys.
  const KernelCost causal = cost_of({Kernel::kAttention, 6, 100, 8});
  CHECK(causal.items == 6 * (48 * 48 + 48 * 96 + 4 * 100));
  CHECK(causal.units == 8 * causal.items);
  CHECK(cost_of({Kernel::kAttentionBackward, 6, 100, 8}, false).items == 6 * 100 * 100);
  const KernelCost pass = cost_of({Kernel::kGelu, 3, 5});
  CHECK(pass.items == 1);
  CHECK(pass.units == 15);
}

TEST_CASE("a fit recovers a law of two costs exactly, and of one where calls are alike") {
  const auto sample = [](double items, double units) {
    return KernelSample{{items, units}, 2e-6 * items + 3e-9 * units};
  };
  const KernelRate both =
      fit_kernel(Kernel::kCopy, {sample(1, 10), sample(1, 1e4), sample(1, 1e6)});
  CHECK(both.kernel == "copy");
  CHECK(both.item_s == doctest::Approx(2e-6));
  CHECK(both.unit_s == doctest::Approx(3e-9));
  const KernelRate alike = fit_kernel(Kernel::kCopy, {sample(1, 1e3), sample(2, 2e3)});
  CHECK(alike.item_s == 0);
  CHECK(alike.unit_s == doctest::Approx(5e-9));
}

TEST_CASE("no cost is negative") {
  // Larger calls are slower than in proportion: a line through both would start below 0.
  const KernelRate rising = fit_kernel(Kernel::kCopy, {{{1, 100}, 1e-6}, {{1, 200}, 4e-6}});
  CHECK(rising.item_s == 0);
  CHECK(rising.unit_s > 1e-8);
  CHECK(rising.unit_s < 2e-8);
  const KernelRate falling = fit_kernel(Kernel::kCopy, {{{1, 100}, 4e-6}, {{1, 200}, 1e-6}});
  CHECK(falling.unit_s == 0);
  CHECK(falling.item_s > 1e-6);
}

TEST_CASE("assumed rates: operations at the products' rate, elements at the memory's") {
  ClusterSpec cluster;
  cluster.gemm_flops = 1e11;
  cluster.memory_bandwidth_bytes_per_s = 1e10;
  const auto unit_s = [](const EngineRates& rates, Kernel kernel) {
    return rates.kernels[static_cast<std::size_t>(kernel)].unit_s;
  };
  const EngineRates full = assumed_rates(cluster, Precision::kFloat32);
  CHECK(full.kernels.size() == kKernels);
  CHECK(unit_s(full, Kernel::kForwardProduct) == doctest::Approx(1e-11));
  CHECK(unit_s(full, Kernel::kAttentionBackward) == doctest::Approx(1e-10));
  CHECK(unit_s(full, Kernel::kCopy) == doctest::Approx(8e-10));
  const EngineRates half = assumed_rates(cluster, Precision::kBFloat16);
  CHECK(unit_s(half, Kernel::kCopy) == doctest::Approx(4e-10));
  CHECK(unit_s(half, Kernel::kNarrow) == doctest::Approx(6e-10));
  CHECK(unit_s(half, Kernel::kAdamw) == doctest::Approx(28e-10));
}

Calibration calibration_of(const std::string& text) {
  const testing::TemporaryFolder folder;
  const std::filesystem::path path = folder.path() / "cluster.yaml";
  std::ofstream(path) << text;
  return read_calibration(path.string());
}

TEST_CASE("rates survive the cluster file") {
  Calibration calibration;
  calibration.source = "engine.json";
  calibration.engine_rates = {
      {collectives::Numerics::kFast, Precision::kBFloat16, 2, 4, 8, 1.125, {{"copy", 1e-7, 2e-10}}},
      {collectives::Numerics::kCanonical, Precision::kFloat32, 1, 1, 0, 1, {{"fill", 0, 1e-10}}}};
  const Calibration read = calibration_of(calibration_yaml(calibration));
  REQUIRE(read.engine_rates.size() == 2);
  const EngineRates& rates = read.engine_rates[0];
  CHECK(rates.numerics == collectives::Numerics::kFast);
  CHECK(rates.precision == Precision::kBFloat16);
  CHECK(rates.threads == 2);
  CHECK(rates.ranks == 4);
  CHECK(rates.cpus == 8);
  CHECK(rates.in_place == 1.125);
  REQUIRE(rates.kernels.size() == 1);
  CHECK(rates.kernels[0].kernel == "copy");
  CHECK(rates.kernels[0].item_s == 1e-7);
  CHECK(rates.kernels[0].unit_s == 2e-10);
  CHECK(read.engine_rates[1].cpus == 0);
}

TEST_CASE("rates that make no sense are refused with their place") {
  const std::string head = "version: 1\nsource: s\ncurves: []\nengine_rates:\n";
  const std::string good =
      "  - {numerics: fast, precision: float32, threads: 1, ranks: 1, in_place: 1, kernels: "
      "[{kernel: copy, item_s: 0, unit_s: 1e-10}]}\n";
  CHECK(calibration_of(head + good).engine_rates.size() == 1);
  const auto refused = [&](std::string text, const std::string& from, const std::string& to) {
    text.replace(text.find(from), from.size(), to);
    try {
      calibration_of(head + text);
    } catch (const Error& error) {
      return error.code();
    }
    return std::string("read");
  };
  CHECK(refused(good, "fast", "sloppy") == "NQD1011");
  CHECK(refused(good, "float32", "fp4") == "NQD1011");
  CHECK(refused(good, "kernel: copy", "kernel: copying") == "NQD1011");
  CHECK(refused(good, "unit_s: 1e-10", "unit_s: -1") == "NQD1011");
  CHECK(refused(good, ", ranks: 1", "") == "NQD1011");
  CHECK(refused(good + good, "fast", "fast") == "NQD1011");
}

}  // namespace
}  // namespace nqd::planner
