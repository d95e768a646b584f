#include <doctest/doctest.h>

#include <algorithm>
#include <chrono>
#include <random>
#include <string>

#include "collectives/nccl/log.h"
#include "collectives/nccl/log_verdicts.h"
#include "tests/diagnose/fixture.h"

namespace nqd::collectives {
namespace {

NcclLog parse(std::string_view text) { return parse_nccl_logs({&text, 1}); }
NcclLog parse_fixture(const std::string& name) { return parse(test::nccl_text(name)); }

TEST_CASE("a healthy log: every field of a process") {
  const NcclLog log = parse_fixture("healthy.log");
  CHECK(log.version == "2.28.9+cuda12.8");
  CHECK(log.cut_records == 0);
  REQUIRE(log.processes.size() == 16);
  const NcclProcess& last = log.processes[15];
  CHECK(last.host == "node2");
  CHECK(last.pid == 4107);
  CHECK(last.network == "IB");
  CHECK(last.bootstrap_interface == "eth0");
  REQUIRE(last.adapters.has_value());
  CHECK(last.adapters->size() == 8);
  CHECK(last.adapters->front() == "mlx5_0:1/IB");
  CHECK_FALSE(last.interfaces.has_value());
  CHECK(last.gdr_enabled.size() == 8);
  CHECK(last.gdr_disabled.empty());  // a pair that is far apart is no refusal
  REQUIRE(last.comms.size() == 1);
  const NcclComm& comm = last.comms.front();
  CHECK(comm.rank == 15);
  CHECK(comm.ranks == 16);
  CHECK(comm.nodes == 2);
  CHECK(comm.gpu == "53000");
  CHECK(comm.started);
  CHECK(comm.completed);
  REQUIRE(last.edges.size() == 4);
  const NcclEdge& edge = last.edges.front();
  CHECK(edge.kind == NcclEdge::Kind::kNetwork);
  CHECK(edge.from == 15);
  CHECK(edge.to == 0);
  CHECK(edge.network == "IB");
  CHECK(edge.device == 7);
  CHECK(edge.gpu_direct == true);
  CHECK_FALSE(edge.receives);
  CHECK(log.processes[1].edges.front().kind == NcclEdge::Kind::kPeerToPeer);
}

TEST_CASE("formats of other versions and networks") {
  const NcclLog log = parse(
      "gpu01:900:950 [7] NCCL INFO Ring 00 : 15 -> 0 [send] via NET/Socket/0\n"
      "gpu01:900:950 [7] NCCL INFO Channel 00 : 3[1d000] -> 4[4000] [receive] via NET/AWS "
      "Libfabric/2/GDRDMA(PCI)/Shared\n"
      "gpu01:900:950 [7] NCCL INFO Channel 01/0 : 3[3] -> 4[4] [send] via NET/IBext_v8/1(2)\n"
      "gpu01:900:950 [7] NCCL INFO Channel 03 : 0[0] -> 1[1] via SHM/direct/direct\n"
      "gpu01:900:950 [7] NCCL INFO NCCL_SOCKET_IFNAME set by environment to eth1\r\n"
      "gpu01:900:950 [7] NCCL INFO NCCL_IB_DISABLE set by environment to 1.\n"
      "[1,3]<stdout>:gpu01:900:951 [3] misc/a.cc:63 NCCL WARN Failed to open libibverbs.so[.1]\n"
      "NCCL INFO Using network Socket\n");
  REQUIRE(log.processes.size() == 2);
  const NcclProcess& process = log.processes[0];
  REQUIRE(process.edges.size() == 4);
  CHECK(process.edges[0].network == "Socket");
  CHECK(process.edges[0].gpu_direct == false);
  CHECK(process.edges[1].network == "AWS Libfabric");
  CHECK(process.edges[1].device == 2);
  CHECK(process.edges[1].receives);
  CHECK(process.edges[1].gpu_direct == true);
  CHECK(process.edges[2].network == "IBext_v8");
  CHECK(process.edges[3].kind == NcclEdge::Kind::kSharedMemory);
  REQUIRE(process.environment.size() == 2);
  CHECK(process.environment[0].second == "eth1");
  CHECK(process.environment[1].second == "1");
  CHECK(process.verbs_missing);
  CHECK(process.warnings.size() == 1);
  CHECK(log.processes[1].host.empty());  // no prefix
  CHECK(log.processes[1].network == "Socket");
}

TEST_CASE("what is cut is unknown, not absent") {
  const NcclLog log = parse_fixture("truncated.log");
  CHECK(log.cut_records == 1);
  const NcclEdge& edge = log.processes.back().edges.back();
  CHECK(edge.network == "IB");
  CHECK_FALSE(edge.gpu_direct.has_value());
  CHECK(judge_nccl_log(log, {}, true).empty());
  CHECK(parse("a:1:2 [0] NCCL INFO Using network Sock").processes[0].network.empty());
}

TEST_CASE("lines torn into each other keep their processes apart") {
  const NcclLog whole = parse_fixture("healthy.log");
  const NcclLog torn = parse_fixture("interleaved.log");
  CHECK(torn.cut_records > 50);
  CHECK(torn.processes.size() == whole.processes.size());
  for (const NcclProcess& process : torn.processes) {
    CHECK((process.host == "node1" || process.host == "node2"));
    for (const NcclEdge& edge : process.edges) CHECK(edge.gpu_direct != false);
  }
  CHECK(judge_nccl_log(torn, {}, true).empty());
}

TEST_CASE("any bytes are read, in linear time") {
  std::mt19937 random(7);
  const std::string sound = test::nccl_text("healthy.log") + test::nccl_text("efa-failed.log");
  for (int round = 0; round < 200; ++round) {
    std::string text = sound.substr(random() % sound.size(), 4000);
    for (int i = 0; i < 60; ++i) text[random() % text.size()] = static_cast<char>(random() % 256);
    const NcclLog log = parse(text);
    judge_nccl_log(log, {}, false);
    CHECK(log.cut_records <= log.records);
  }
  const auto seconds = [](const std::string& text) {
    const auto start = std::chrono::steady_clock::now();
    parse(text);
    return std::chrono::duration<double>(std::chrono::steady_clock::now() - start).count();
  };
  std::string many;
  for (int i = 0; i < 40000; ++i) {
    many += "h:" + std::to_string(i % 3) + ":1 [0] NCCL INFO comm 0x" + std::to_string(i) +
            " rank 0 nranks 2 - Init START ] : ";
  }
  CHECK(seconds(many) < 5);
}

}  // namespace
}  // namespace nqd::collectives
