// That layers hand over what belongs together where a device fuses what follows products.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <mutex>
#include <vector>

#include "tests/engine/device/late_device.h"
#include "tests/engine/device/small_run.h"

namespace nqd::tests {
namespace {

using planner::Config;

constexpr std::int64_t kSteps = 2;
// A micro-batch of each of four layers, four in each step.
constexpr int kLayers = 4 * 4 * kSteps;

// Devices of ranks that fuse, and what they were asked for, by kind.
class Fusing {
 public:
  std::function<std::unique_ptr<engine::Device>()> make() {
    return [this] {
      const std::lock_guard lock(mutex_);
      of_ranks_.push_back(std::make_unique<FusedCalls>());
      return std::make_unique<LateDevice>(*of_ranks_.back());
    };
  }
  const std::vector<std::unique_ptr<FusedCalls>>& of_ranks() const { return of_ranks_; }

 private:
  std::mutex mutex_;
  std::vector<std::unique_ptr<FusedCalls>> of_ranks_;
};

planner::ParallelSpec tensor_parallel(std::int64_t tp, bool sequence_parallel = false) {
  planner::ParallelSpec parallel;
  parallel.engine = planner::Engine::kDdp;
  parallel.dp = parallel.pp = 1;
  parallel.tp = tp;
  parallel.sequence_parallel = sequence_parallel;
  return parallel;
}

void check_fused(const Config& model, const planner::ParallelSpec& mesh,
                 const FusedCalls& expected_calls) {
  const Config config = on_mesh(model, mesh);
  INFO("tp ", mesh.tp, ", sequence parallel ", mesh.sequence_parallel);
  Fusing fusing;
  const SmallRun expected = small_run(config, kSteps);
  const SmallRun found = small_run(config, kSteps, fusing.make());
  CHECK(expected.losses[0] > 0);
  CHECK(found.has_same_bits(expected));
  REQUIRE(fusing.of_ranks().size() == static_cast<std::size_t>(mesh.ranks()));
  for (const auto& calls : fusing.of_ranks()) CHECK(*calls == expected_calls);
}

Config fast(Config config) {
  config.numerics.mode = collectives::Numerics::kFast;
  return config;
}

TEST_CASE("what follows products may be fused into them") {
  const planner::ParallelSpec alone = tensor_parallel(1);
  const Config gpt = fast(small_gpt());
  // By kind: bias, residual, GELU, its gradient, row sums. Query, key and value are one product.
  check_fused(gpt, alone, {kLayers, 2 * kLayers, kLayers, kLayers, 4 * kLayers});
  // No biases and a gated MLP.
  check_fused(fast(small_llama()), alone, {0, 2 * kLayers, 0, 0, 0});
  // Dropout comes between product and residual.
  Config drops = gpt;
  drops.train.dropout = true;
  check_fused(drops, alone, {kLayers, 0, kLayers, kLayers, 4 * kLayers});
  // Products that ranks add up are followed by messages; with their rows split, so are biases.
  check_fused(gpt, tensor_parallel(2), {kLayers, 0, kLayers, kLayers, 4 * kLayers});
  check_fused(gpt, tensor_parallel(2, true), {kLayers, 0, kLayers, kLayers, 2 * kLayers});
  // Canonical numerics has nothing fused.
  check_fused(small_gpt(), alone, {});
}

TEST_CASE("gradients of logits in 16 bits change gradients by their roundings alone") {
  Config config = on_mesh(fast(small_gpt()), tensor_parallel(1));
  config.train.precision = planner::Precision::kBFloat16;
  config.train.optimizer.kind = planner::OptimizerKind::kSgd;
  Fusing fusing;
  const SmallRun expected = small_run(config, kSteps);
  const SmallRun found = small_run(config, kSteps, fusing.make());
  CHECK(found.losses[0] == expected.losses[0]);
  CHECK(found.norms[0] != expected.norms[0]);
  CHECK(found.losses[1] == doctest::Approx(expected.losses[1]).epsilon(1e-4));
  CHECK(found.norms[0] == doctest::Approx(expected.norms[0]).epsilon(0x1p-8));
  REQUIRE(found.saved.size() == expected.saved.size());
  for (std::size_t i = 0; i < found.saved.size(); ++i) {
    REQUIRE(found.saved[i] == doctest::Approx(expected.saved[i]).epsilon(0x1p-8).scale(0.02));
  }
}

}  // namespace
}  // namespace nqd::tests
