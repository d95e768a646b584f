#include "engine/train/device_check.h"

#include <doctest/doctest.h>

#include <string>

#include "base/error.h"
#include "engine/train/preflight.h"
#include "planner/planner.h"
#include "planner/reference/reference_plan.h"
#include "tests/engine/tiny_run.h"

namespace nqd::engine {
namespace {

constexpr double kGiB = 1024.0 * 1024.0 * 1024.0;

FoundDevice device_with(double free_bytes) {
  return {3, "NVIDIA H100 80GB HBM3", "GPU-1", 79 * kGiB, free_bytes};
}

RankIdentity on_gpu(int rank, const std::string& device, const std::string& host = "alpha") {
  return {rank, host, 100 + rank, device, ""};
}

std::vector<std::string> codes(const std::string& gpu, const std::vector<RankIdentity>& ranks) {
  std::vector<std::string> found;
  for (const DeviceWarning& warning : device_warnings(gpu, ranks)) found.push_back(warning.code);
  return found;
}

std::string refusal(double planned_bytes, std::int64_t ranks, double free_bytes) {
  try {
    check_device_memory(planned_bytes, ranks, device_with(free_bytes), "alpha");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD1407");
    CHECK(error.exit_code() == ExitCode::kNo);
    CHECK_FALSE(error.hint().empty());
    return error.what();
  }
  return "";
}

TEST_CASE("a plan is refused that does not fit into what is free on the GPU") {
  CHECK(refusal(40 * kGiB, 1, 40 * kGiB).empty());
  CHECK(refusal(41 * kGiB, 1, 40 * kGiB) ==
        "a rank needs 41.00 GiB by plan, but GPU 3 of host alpha (NVIDIA H100 80GB HBM3, 79.00 "
        "GiB) has 40.00 GiB free: 1.00 GiB too much");
  CHECK(refusal(20 * kGiB, 2, 40 * kGiB).empty());
  CHECK(refusal(20 * kGiB, 3, 40 * kGiB).starts_with("3 ranks of 20.00 GiB need 60.00 GiB"));
  // A driver that does not say refuses nothing; the pool will.
  CHECK(refusal(40 * kGiB, 1, 0).empty());
}

TEST_CASE("another GPU than was planned for is told, not the one that was") {
  const std::vector<std::string> other = {"other-device"};
  const auto found = [](const std::string& gpu, const std::string& device) {
    return codes(gpu, {on_gpu(0, device + ", GPU-1")});
  };
  CHECK(found("h100-sxm", "NVIDIA H100 80GB HBM3").empty());
  CHECK(found("a100-sxm-80", "NVIDIA A100-SXM4-80GB").empty());
  CHECK(found("h100-sxm", "NVIDIA H200") == other);
  CHECK(found("h100-sxm", "NVIDIA GH100") == other);
  CHECK(found("b200", "NVIDIA GB200") == other);
  CHECK(found("gb200", "NVIDIA GB200").empty());
  CHECK(found("", "NVIDIA H200").empty());
}

TEST_CASE("ranks that share a GPU of a cluster are told") {
  const auto rank = [](int index, const std::string& uuid, const std::string& host = "alpha") {
    return on_gpu(index, "NVIDIA H100 80GB HBM3, " + uuid, host);
  };
  CHECK(codes("h100-sxm", {rank(0, "GPU-1"), rank(1, "GPU-2")}).empty());
  CHECK(codes("h100-sxm", {rank(0, "GPU-1"), rank(1, "GPU-1")}) ==
        std::vector<std::string>{"shared-device"});
  CHECK(codes("h100-sxm", {rank(0, "GPU-1"), rank(1, "GPU-2", "beta")}).empty());
  CHECK(codes("", {rank(0, "GPU-1"), rank(1, "GPU-1")}).empty());
  CHECK(codes("h100-sxm", {on_gpu(0, "cpu"), on_gpu(1, "cpu")}).empty());
}

TEST_CASE("devices are counted once, CPU ranks one each") {
  const std::vector<RankIdentity> ranks = {on_gpu(0, "A, GPU-1"), on_gpu(1, "A, GPU-2"),
                                           on_gpu(2, "A, GPU-1")};
  CHECK(device_count(ranks) == 2);
  CHECK(ranks_on_device_of(ranks, 2) == 2);
  CHECK(ranks_on_device_of(ranks, 1) == 1);
  CHECK(device_count({on_gpu(0, "cpu"), on_gpu(1, "cpu")}) == 2);
}

TEST_CASE("of a GPU's rank the host holds the copy for saves and the batch") {
  planner::Config config = testing::tiny_run(2);
  config.train.global_batch_size = 12;
  config.checkpoint.every = 5;
  const planner::StageMemory planned = planner::reference_memory(config, 1);
  const double copy = planned.categories.at("checkpoint");
  const RankMemory cpu = planned_memory_of(config, 1, DeviceKind::kCpu);
  CHECK(cpu.host_bytes == planned.total_bytes);
  CHECK(cpu.device_bytes == 0);
  const RankMemory gpu = planned_memory_of(config, 1, DeviceKind::kCuda);
  CHECK(gpu.host_bytes == copy + planned.categories.at("data"));
  CHECK(gpu.device_bytes == planned.total_bytes - copy);
}

TEST_CASE("a cluster of GPUs is planned as what the engine allocates and sends there") {
  planner::Config config = testing::tiny_run(2);
  config.train.global_batch_size = 12;
  config.cluster.preset = "dgx-h100";
  config.cluster.gpu = "h100-sxm";
  config.cluster.memory_bytes = 80e9;
  config.cluster.peak_flops = 989e12;
  config.cluster.memory_bandwidth_bytes_per_s = 3350e9;
  config.cluster.intra_node = {3e-6, 450e9};
  REQUIRE(planner::engine_refusal(config));
  const planner::Config ours = on_gpus(config);
  CHECK_FALSE(planner::engine_refusal(ours));
  const planner::Plan plan = planner::make_plan(ours);
  CHECK(plan.valid);
  const planner::StageMemory buffers = planner::reference_memory(ours, 0);
  CHECK(plan.memory.worst_total_bytes == buffers.total_bytes);
  CHECK(buffers.categories.count("device_context") == 0);
  // At the device's rates and over its links, without a peer's memory.
  CHECK(plan.time.step_s > 0);
  CHECK(plan.mfu > 0);
  for (const planner::GroupTraffic& row : plan.communication) CHECK(row.algorithm != "direct");
  CHECK(ours.cluster.gpu == "h100-sxm");
}

}  // namespace
}  // namespace nqd::engine
