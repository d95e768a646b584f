#include "engine/canary/canary.h"

#include <doctest/doctest.h>

#include <cmath>
#include <vector>

#include "collectives/world.h"
#include "engine/canary/judge.h"

namespace nqd::engine {
namespace {

CanaryDevice healthy_device(int rank, const std::string& host) {
  CanaryDevice device;
  device.rank = rank;
  device.host = host;
  device.gemm_flops = device.gemm_flops_per_cpu_s = 100e9;
  device.cpu_share = 1;
  device.copy_bytes_per_s = device.copy_bytes_per_cpu_s = 20e9;
  return device;
}

// Two ranks a host, every pair a link of 1 us and 5 GB/s.
CanaryResult healthy(int ranks) {
  CanaryResult result;
  for (int rank = 0; rank < ranks; ++rank) {
    result.devices.push_back(
        healthy_device(rank, std::string(1, static_cast<char>('a' + rank / 2))));
    for (int a = 0; a < rank; ++a) result.links.push_back({a, rank, 1e-6, 5});
  }
  return result;
}

TEST_CASE("nothing is slow where all are alike") {
  for (const int ranks : {1, 2, 3, 8}) {
    CanaryResult result = healthy(ranks);
    for (CanaryDevice& device : result.devices)
      device.gemm_flops_per_cpu_s *= 1 - 0.3 * device.rank / ranks;
    judge_canary(result);
    CHECK(result.healthy());
    CHECK(result.busy_hosts.empty());
    CHECK(canary_verdicts(result).empty());
  }
}

TEST_CASE("the slow device is named, with its host, the test and both figures") {
  for (const int ranks : {2, 3, 8}) {
    CanaryResult result = healthy(ranks);
    result.devices[1].gemm_flops_per_cpu_s = 60e9;
    judge_canary(result);
    REQUIRE(result.findings.size() == 1);
    const CanaryFinding& found = result.findings[0];
    CHECK(found.test == CanaryTest::kGemm);
    CHECK(found.rank == 1);
    CHECK(found.peer == -1);
    CHECK(found.measured == 60e9);
    CHECK(found.expected == doctest::Approx(100e9));
    CHECK(found.score == doctest::Approx(std::log(100.0 / 60) / kDeviceSpread));
    CHECK(result.slow_hosts() == std::vector<std::string>{"a"});
    const auto verdicts = canary_verdicts(result);
    REQUIRE(verdicts.size() == 1);
    CHECK(verdicts[0].evidence ==
          "matrix products of rank 1 on host a: 60 GFLOP/s, where its peers have 100 GFLOP/s");
  }
  CanaryResult result = healthy(4);
  result.devices[3].cpu_share = 0.5;
  result.devices[2].copy_bytes_per_cpu_s = 5e9;
  judge_canary(result);
  REQUIRE(result.findings.size() == 2);
  CHECK(result.findings[0].test == CanaryTest::kCpuShare);
  CHECK(result.findings[0].rank == 3);
  CHECK(result.findings[1].test == CanaryTest::kCopy);
  CHECK(result.findings[1].rank == 2);
  CHECK(result.slow_hosts() == std::vector<std::string>{"b"});
}

TEST_CASE("peers that scatter ask for more than a factor") {
  CanaryResult result = healthy(8);
  for (CanaryDevice& device : result.devices) {
    device.gemm_flops_per_cpu_s *= 1 + 0.15 * device.rank;
  }
  result.devices[0].gemm_flops_per_cpu_s = 75e9;  // below 1/1.5 of the median, but not far out
  judge_canary(result);
  CHECK(result.healthy());
  result.devices[0].gemm_flops_per_cpu_s = 20e9;
  judge_canary(result);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].rank == 0);
}

TEST_CASE("a busy host is said to be, and its ranks are judged by a calibration alone") {
  CanaryResult result = healthy(6);
  for (const int rank : {2, 3}) {
    CanaryDevice& device = result.devices[static_cast<std::size_t>(rank)];
    device.cpu_share = 0.4 + 0.1 * rank;
    device.gemm_flops_per_cpu_s = 10e9;
    device.gemm_flops = 30e9;
  }
  result.devices[3].cpu_share = 0.2;
  judge_canary(result);
  CHECK(result.healthy());
  CHECK(result.busy_hosts == std::vector<std::string>{"b"});
  const auto verdicts = canary_verdicts(result);
  REQUIRE(verdicts.size() == 1);
  CHECK(verdicts[0].code == "busy-host");
  CHECK(verdicts[0].severity == "warning");
  result.expectation.gemm_flops = 100e9;
  judge_canary(result);
  REQUIRE(result.findings.size() == 2);
  CHECK(result.findings[0].against_calibration);
  CHECK(result.findings[1].rank == 3);
}

TEST_CASE(
    "a slow link is named by its two ranks, a rank that is slow in all of its links by itself") {
  CanaryResult result = healthy(6);
  for (auto& link : result.links) {
    if (link.a == 1 && link.b == 4) link.bandwidth_gbps = 1;
  }
  judge_canary(result);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].test == CanaryTest::kBandwidth);
  CHECK(result.findings[0].rank == 1);
  CHECK(result.findings[0].peer == 4);
  CHECK(result.findings[0].peer_host == "c");
  CHECK(result.findings[0].measured == 1e9);
  CHECK(result.findings[0].expected == 5e9);
  CHECK(result.slow_hosts().empty());
  CHECK(canary_verdicts(result)[0].evidence ==
        "bandwidth of messages between rank 1 on host a and rank 4 on host c: 1 GB/s, where its "
        "peers have 5 GB/s");
  result = healthy(6);
  for (auto& link : result.links) {
    if (link.a / 2 != 2 && link.b / 2 == 2) link.latency_s = 1e-3;
    if (link.a / 2 != 2 && link.b == 5) link.latency_s = 1e-6;
  }
  judge_canary(result);
  REQUIRE(result.findings.size() == 1);
  CHECK(result.findings[0].test == CanaryTest::kLatency);
  CHECK(result.findings[0].rank == 4);
  CHECK(result.findings[0].peer == -1);
  CHECK(result.slow_hosts() == std::vector<std::string>{"c"});
  // What one wake-up takes is no fault.
  for (auto& link : result.links) link.latency_s = std::min(link.latency_s, 40e-6);
  judge_canary(result);
  CHECK(result.healthy());
}

TEST_CASE("a calibration says what devices and links should do") {
  planner::CalibratedCurve inside{.collective = "send_recv",
                                  .algorithm = "library",
                                  .ranks = 2,
                                  .pieces = {{4096, 4 << 20, 0, 1.01e-10}}};
  planner::CalibratedCurve across = inside;
  across.inside_node = false;
  across.pieces = {{4096, 4 << 20, 0, 1e-9}};
  planner::CalibratedCurve short_ones = across;
  short_ones.pieces = {{4096, 64 << 10, 0, 1e-7}};
  planner::CalibratedCurve ring = across;
  ring.ranks = 8;
  const CanaryExpectation known =
      canary_expectation({inside, across, short_ones, ring}, 100e9, 20e9, "cluster.yaml");
  CHECK(known.inside_link_bytes_per_s == doctest::Approx(1e10 / 1.01));
  CHECK(known.across_link_bytes_per_s == doctest::Approx(1e9));
  CanaryResult result = healthy(4);
  result.expectation = known;
  judge_canary(result);
  // Inside a host 5 GB/s are half of what was measured.
  CHECK(result.healthy());
  for (auto& link : result.links) link.bandwidth_gbps = 4.9;
  result.devices[0].gemm_flops = 60e9;
  judge_canary(result);
  REQUIRE(result.findings.size() == 3);
  CHECK(result.findings[0].rank == 0);
  CHECK(result.findings[0].peer == -1);
  CHECK(result.findings[1].peer == 1);
  CHECK(result.findings[2].rank == 2);
  for (const CanaryFinding& found : result.findings) CHECK(found.against_calibration);
}

TEST_CASE("a canary on threads measures every device and every link") {
  collectives::run_threads(3, {}, [](collectives::Communicator& world) {
    const CanaryResult result = run_canary(world, {});
    REQUIRE(result.devices.size() == 3);
    REQUIRE(result.links.size() == 3);
    for (const CanaryDevice& device : result.devices) {
      CHECK(device.gemm_flops > 0);
      CHECK(device.gemm_flops <= device.gemm_flops_per_cpu_s);
      CHECK(device.copy_bytes_per_s > 0);
      CHECK(device.cpu_share > 0);
      CHECK(device.cpu_share <= 1);
    }
    for (const auto& link : result.links) {
      CHECK(link.latency_s > 0);
      CHECK(link.bandwidth_gbps > 0);
    }
    CHECK(result.passes >= 1);
    CHECK(result.passes <= 3);
    // Nobody is named who was not looked at three times.
    if (!result.healthy()) CHECK(result.passes == 3);
  });
}

}  // namespace
}  // namespace nqd::engine
