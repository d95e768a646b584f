#include <doctest/doctest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "base/error.h"
#include "planner/config/cluster_file.h"
#include "reports/diagnose/diagnosis.h"
#include "reports/diagnose/run_verdicts.h"
#include "tests/diagnose/fixture.h"

namespace nqd::reports {
namespace {

using collectives::Verdict;

Diagnosis diagnose_fixture(const std::string& name, const std::string& preset = {}) {
  planner::ClusterSpec cluster;
  if (!preset.empty()) cluster = planner::read_cluster(preset);
  return diagnose({test::nccl_fixture(name)}, preset.empty() ? nullptr : &cluster, preset);
}

std::string codes(const Diagnosis& diagnosis) {
  std::string text;
  for (const Verdict& verdict : diagnosis.verdicts) {
    text += (text.empty() ? "" : " ") + verdict.severity + ":" + verdict.code;
  }
  return text;
}

Verdict find(const Diagnosis& diagnosis, const std::string& code) {
  for (const Verdict& verdict : diagnosis.verdicts) {
    if (verdict.code == code) return verdict;
  }
  return {};
}

TEST_CASE("each fixture has its verdicts and no others") {
  struct Case {
    const char* file;
    const char* preset;
    const char* codes;
  };
  const Case cases[] = {
      {"healthy.log", "", ""},
      {"healthy.log", "dgx-h100", ""},
      {"mixed.txt", "dgx-h100", ""},
      {"all-reduce-healthy.txt", "dgx-h100", ""},
      {"all-reduce-healthy.json", "dgx-h100", ""},
      {"all-reduce-small.txt", "dgx-h100", "info:latency-bound"},
      {"truncated.log", "dgx-h100", ""},
      {"interleaved.log", "dgx-h100", ""},
      {"no-device.log", "", "warning:socket-fallback"},
      {"no-device.log", "dgx-h100", "error:socket-fallback"},
      {"no-verbs.log", "dgx-h100", "error:socket-fallback"},
      {"ib-disabled.log", "dgx-h100", "error:socket-fallback warning:env-override"},
      {"efa-failed.log", "", "error:socket-fallback"},
      {"old-socket.log", "", "warning:socket-fallback"},
      {"old-socket.log", "dgx-v100", "error:socket-fallback"},
      {"no-gdr.log", "", "warning:gpudirect-off"},
      {"one-hca.log", "", ""},
      {"one-hca.log", "dgx-h100", "error:one-rail"},
      {"one-rail.log", "", "error:one-rail"},
      {"docker0.log", "", "error:wrong-interface error:init-hang warning:socket-fallback"},
      {"hang.log", "", "error:init-hang"},
      {"half-hang.log", "", "error:init-hang"},
      {"shm.log", "", "warning:p2p-disabled warning:env-override"},
      {"shm.log", "dgx-h100", "error:p2p-disabled warning:env-override"},
      {"duplicate.log", "", "error:duplicate-gpu error:init-hang"},
      {"singletons.log", "", "error:singletons"},
      {"separate.txt", "", "error:singletons"},
      {"all-reduce-slow.txt", "dgx-h100", "error:socket-fallback"},
      {"all-reduce-slow.txt", "", ""},
      {"all-reduce-half.txt", "dgx-h100", "warning:below-expected"},
      {"all-reduce-wrong.txt", "", "error:wrong-result"},
      {"all-reduce-cut.txt", "", "warning:incomplete-run info:latency-bound"},
      {"mixed-socket.txt", "dgx-h100", "error:socket-fallback error:below-expected"},
      {"old-table.txt", "", ""},
      {"per-iteration.txt", "", "warning:high-variance"},
      {"all-reduce-spread.json", "", "warning:high-variance"},
  };
  for (const Case& test : cases) {
    CAPTURE(test.file);
    CAPTURE(test.preset);
    CHECK(codes(diagnose_fixture(test.file, test.preset)) == test.codes);
  }
}

TEST_CASE("why TCP was taken is told apart") {
  const auto cause = [](const char* file) {
    return find(diagnose_fixture(file, "dgx-h100"), "socket-fallback");
  };
  CHECK(cause("no-device.log").cause.find("no RDMA device is visible") != std::string::npos);
  CHECK(cause("no-verbs.log").cause.find("libibverbs") != std::string::npos);
  CHECK(cause("ib-disabled.log").cause.find("NCCL_IB_DISABLE=1") != std::string::npos);
  CHECK(cause("efa-failed.log").cause.find("plugin") != std::string::npos);
  CHECK(cause("no-device.log").confidence == "certain");
  CHECK(cause("all-reduce-slow.txt").confidence == "suspected");
  CHECK(cause("no-device.log").evidence.find("16 of 16 processes") != std::string::npos);
  CHECK(cause("no-device.log").evidence.find("Using network Socket") != std::string::npos);
}

TEST_CASE("ranks that hang are named") {
  const Verdict all = find(diagnose_fixture("hang.log"), "init-hang");
  CHECK(all.evidence.find("no line of ranks 11") != std::string::npos);
  const Verdict two = find(diagnose_fixture("half-hang.log"), "init-hang");
  CHECK(two.evidence.find("ranks 3 (node1:4103), 12 (node2:4104) of 16") != std::string::npos);
}

TEST_CASE("expectations of a cluster") {
  const planner::ClusterSpec cluster = planner::read_cluster("dgx-h100");
  const collectives::FabricPromise promise = promise_of(cluster, "dgx-h100");
  CHECK(promise.adapters_per_node == 8);
  CHECK(promise.adapter_bytes_per_s == 50e9);
  CHECK(promise.rdma());
  CHECK(promise.scale_up());
  const auto expected = [&](const char* collective, int ranks, int nodes) {
    return expected_busbw(cluster, promise, {"", collective, ranks, nodes, {}}, 1e9);
  };
  CHECK(expected("all_reduce", 16, 2)->busbw_gbps == doctest::Approx(0.96 * 400));
  CHECK(expected("all_reduce", 2, 2)->busbw_gbps == doctest::Approx(0.96 * 50));
  // 8 of a rank's 15 foreign parts leave the node.
  CHECK(expected("all_to_all", 16, 2)->busbw_gbps == doctest::Approx(0.96 * 50 * 15 / 8));
  CHECK(expected("all_reduce", 8, 1)->busbw_gbps > 250);
  CHECK_FALSE(expected("send_recv", 16, 2).has_value());
  CHECK_FALSE(expected("unknown", 16, 2).has_value());
  const planner::ClusterSpec lone = planner::read_cluster("single-nic-h100");
  CHECK(promise_of(lone, "").adapter_bytes_per_s == 50e9);
  CHECK_THROWS_WITH_AS(planner::read_cluster("dgx-h101"), doctest::Contains("dgx-h101"), Error);
}

TEST_CASE("a plateau is where bandwidth no longer grows") {
  std::vector<collectives::BenchRow> rows(4);
  const auto plateau = [&](std::vector<std::pair<std::uint64_t, double>> points) {
    std::vector<const collectives::BenchRow*> curve;
    for (std::size_t i = 0; i < points.size(); ++i) {
      rows[i].effective_bytes = points[i].first;
      rows[i].busbw_gbps = points[i].second;
      curve.push_back(&rows[i]);
    }
    return find_plateau(curve).best;
  };
  constexpr std::uint64_t kMiB = 1ull << 20;
  CHECK(plateau({{32 * kMiB, 90}, {64 * kMiB, 101}, {128 * kMiB, 100}}) == &rows[1]);
  CHECK(plateau({{32 * kMiB, 40}, {64 * kMiB, 80}}) == nullptr);  // still grows
  CHECK(plateau({{4 * kMiB, 100}, {8 * kMiB, 100}}) == nullptr);  // small
  CHECK(plateau({{32 * kMiB, 100}}) == nullptr);
  CHECK(plateau({{1024 * kMiB, 100}}) == &rows[0]);
}

TEST_CASE("a file that is nothing known is refused with its place") {
  CHECK_THROWS_WITH_AS(
      diagnose({test::nccl_fixture("make_fixtures.py").parent_path() / "../gpt_fixture.h"}, nullptr,
               ""),
      doctest::Contains(":1:1: no table of nccl-tests"), Error);
}

}  // namespace
}  // namespace nqd::reports
