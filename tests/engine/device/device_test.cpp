// That nothing above the device line depends on when operations run, nor on who asks for them
// again.
#include <doctest/doctest.h>

#include <functional>
#include <memory>
#include <stdexcept>
#include <vector>

#include "tests/engine/device/late_device.h"
#include "tests/engine/device/small_run.h"

namespace nqd::tests {
namespace {

using planner::Config;

std::function<std::unique_ptr<engine::Device>()> late(LateFault fault) {
  return [fault] { return std::make_unique<LateDevice>(fault); };
}

// Returns what was found.
SmallRun check_late(const Config& model, const planner::ParallelSpec& mesh, std::int64_t steps) {
  const Config config = on_mesh(model, mesh);
  INFO("dp ", mesh.dp, ", tp ", mesh.tp, ", pp ", mesh.pp);
  const SmallRun expected = small_run(config, steps);
  SmallRun found = small_run(config, steps, late(LateFault::kNone));
  REQUIRE(expected.norms.size() == static_cast<std::size_t>(steps));
  CHECK(expected.losses[0] > 0);
  CHECK(expected.norms[0] > 0);
  CHECK(found.losses == expected.losses);
  CHECK(found.norms == expected.norms);
  CHECK(found.weights == expected.weights);
  CHECK(found.saved == expected.saved);
  CHECK_FALSE(found.saved.empty());
  return found;
}

const planner::ParallelSpec kAlone = mesh(planner::Engine::kDdp, 1);

TEST_CASE("one rank's step is the same whenever its operations run, and from a recording") {
  Config config = small_gpt();
  config.train.ema = true;
  CHECK(check_late(config, kAlone, kManySteps).repeated == kRepeatedSteps);
  config = small_llama();
  config.train.dropout = true;
  config.train.precision = planner::Precision::kBFloat16;
  config.train.recompute = planner::Recompute::kSelective;
  CHECK(check_late(config, kAlone, kManySteps).repeated == kRepeatedSteps);
  config = small_encoder();
  config.numerics.mode = collectives::Numerics::kFast;
  config.train.optimizer.kind = planner::OptimizerKind::kSgd;
  CHECK(check_late(config, mesh(planner::Engine::kZero3, 1), kManySteps).repeated ==
        kRepeatedSteps);
}

// That the comparison notices what a recording must not hold.
TEST_CASE("a repeated step whose masks, scale or buffers changed has other bits") {
  Config config = on_mesh(small_gpt(), kAlone);
  config.train.dropout = true;
  const SmallRun expected = small_run(config, kManySteps);
  const auto has_same_bits = [&](LateFault fault) {
    return small_run(config, kManySteps, late(fault)).has_same_bits(expected);
  };
  CHECK(has_same_bits(LateFault::kNone));
  CHECK_FALSE(has_same_bits(LateFault::kSameArguments));
  CHECK_FALSE(has_same_bits(LateFault::kSameBuffers));
  CHECK_FALSE(has_same_bits(LateFault::kSameMasks));
}

TEST_CASE(
    "a part runs, is recorded, and comes again without its body until what varies is another") {
  LateDevice device;
  std::vector<float> values = {1, 1};
  int bodies = 0;
  const auto again = [&](std::int64_t varying) {
    return device.repeat({.part = 3, .varying = {varying}}, [&] {
      ++bodies;
      device.add(values.data(), values.data() + 1, 1);
    });
  };
  CHECK(again(0));
  CHECK(again(0));
  CHECK_FALSE(again(0));
  CHECK_FALSE(again(0));
  device.synchronize();
  CHECK(bodies == 2);
  CHECK(values[0] == 5);
  CHECK(again(1));
  CHECK(again(1));
  CHECK_FALSE(again(1));
  CHECK(again(0));
  CHECK(bodies == 5);
}

TEST_CASE("what waits for the host, or gives it something, cannot be recorded") {
  float value = 0, other = 0;
  engine::ExactSum sum;
  const std::vector<std::function<void(engine::Device&)>> refused = {
      [&](engine::Device& device) { device.synchronize(); },
      [&](engine::Device& device) { device.upload(&other, &value, sizeof value); },
      [&](engine::Device& device) { device.download(&other, &value, sizeof value); },
      [&](engine::Device& device) { device.add_squares(sum, &value, 1); },
      [&](engine::Device& device) { device.collect(); }};
  for (const auto& operation : refused) {
    LateDevice device;
    const auto body = [&] { operation(device); };
    CHECK(device.repeat({}, body));
    CHECK_THROWS_AS(device.repeat({}, body), std::logic_error);
  }
}

TEST_CASE("messages carry what the operations before them left") {
  check_late(small_gpt(), mesh(planner::Engine::kDdp, 2), 2);
  check_late(small_gpt(), mesh(planner::Engine::kZero1, 2), 2);
  check_late(small_llama(), mesh(planner::Engine::kZero2, 2), 2);
  Config config = small_gpt();
  config.train.precision = planner::Precision::kFloat16;
  check_late(config, mesh(planner::Engine::kZero3, 2), 2);
  check_late(small_llama(), mesh(planner::Engine::kDdp, 1, 2), 2);
  planner::ParallelSpec split = mesh(planner::Engine::kDdp, 1, 2);
  split.sequence_parallel = true;
  config = small_gpt();
  config.train.dropout = true;
  check_late(config, split, 2);
  check_late(small_gpt(), mesh(planner::Engine::kDdp, 1, 1, 2), 2);
}

}  // namespace
}  // namespace nqd::tests
