#include "collectives/bench/verdicts.h"

#include <doctest/doctest.h>

#include <algorithm>

#include "collectives/bench/series.h"

namespace nqd::collectives {
namespace {

constexpr std::uint64_t kMiB = 1 << 20;

BenchRow row_of(std::uint64_t bytes, double p50_s, double p95_s) {
  BenchRow row;
  row.collective = "all_reduce";
  row.backend = "mpi";
  row.transport = "mpi";
  row.algorithm = "ring";
  row.effective_bytes = bytes;
  row.ranks = 2;
  row.samples_s.assign(20, p50_s);
  row.p50_s = p50_s;
  row.p95_s = p95_s;
  row.busbw_gbps = static_cast<double>(bytes) / p50_s / 1e9;
  row.bytes_sent_per_rank = 10;
  row.predicted_bytes_per_rank = 12;
  return row;
}
BenchRow row_of(std::uint64_t bytes) {
  const double seconds = static_cast<double>(bytes) / 10e9;
  return row_of(bytes, seconds, seconds);
}

// Two ranks on two CPUs of one host, each bound to one.
MachineRecord healthy_machine() {
  MachineRecord machine;
  for (const int cpu : {0, 1}) {
    RankRecord rank;
    rank.host = "h";
    rank.cpus = {cpu};
    rank.numa_nodes = {0};
    rank.cross_memory = "allowed";
    machine.ranks.push_back(rank);
  }
  HostRecord host;
  host.host = "h";
  host.ranks = 2;
  host.usable_cpus = 2;
  machine.hosts.push_back(host);
  return machine;
}

std::vector<Verdict> judged(const std::vector<BenchRow>& rows, const MachineRecord& machine,
                            double promised_bytes_per_s = 0,
                            const std::vector<std::size_t>& miscounted = {}) {
  return judge({.rows = rows,
                .miscounted_rows = miscounted,
                .machine = machine,
                .ranks_are_processes = true,
                .promised_bytes_per_s = promised_bytes_per_s});
}

// The one verdict that is expected, which says all that a verdict must.
Verdict only(const std::vector<Verdict>& verdicts, const std::string& code) {
  REQUIRE(verdicts.size() == 1);
  const Verdict& verdict = verdicts.front();
  CHECK(verdict.code == code);
  for (const std::string& text :
       {verdict.evidence, verdict.threshold, verdict.cause, verdict.next_step}) {
    CHECK_FALSE(text.empty());
  }
  return verdict;
}

TEST_CASE("a healthy run has no verdict") {
  CHECK(judged({row_of(4096), row_of(kMiB), row_of(64 * kMiB)}, healthy_machine()).empty());
}

TEST_CASE("the plateau is large and near the best") {
  const std::vector<BenchRow> rows = {row_of(64 * kMiB, 64e-3, 0), row_of(4096, 4e-7, 0),
                                      row_of(kMiB, 1.25e-4, 0), row_of(4 * kMiB, 4e-4, 0),
                                      row_of(16 * kMiB, 1.6e-3, 0)};
  const auto series = series_of(rows);
  REQUIRE(series.size() == 1);
  CHECK(series[0].front()->effective_bytes == 4096);
  const Series plateau = plateau_of(series[0]);
  REQUIRE(plateau.size() == 3);
  CHECK(plateau[0]->effective_bytes == kMiB);
  CHECK(plateau[2]->effective_bytes == 16 * kMiB);
}

TEST_CASE("a line through exact points is found again") {
  std::vector<BenchRow> rows;
  for (const std::uint64_t bytes : {4096u, 65536u, 1048576u}) {
    rows.push_back(row_of(bytes, 5e-6 + 2e-10 * static_cast<double>(bytes), 0));
  }
  const LatencyLine line = fit_line(series_of(rows)[0]);
  CHECK(line.alpha_s == doctest::Approx(5e-6));
  CHECK(line.beta_s_per_byte == doctest::Approx(2e-10));
}

TEST_CASE("verdicts of rows") {
  std::vector<BenchRow> rows = {row_of(kMiB)};
  rows[0].wrong = 5;
  CHECK(only(judged(rows, healthy_machine()), "wrong-result").severity == "error");
  rows[0].wrong = 0;
  const Verdict counts = only(judged(rows, healthy_machine(), 0, {0}), "byte-count-mismatch");
  CHECK(counts.evidence.find("sent 10 bytes a rank, predicted 12") != std::string::npos);
  rows[0].p95_s = 2.5 * rows[0].p50_s;
  CHECK(only(judged(rows, healthy_machine()), "high-variance").severity == "warning");
}

TEST_CASE("a spread of small rows beside a plateau is not judged") {
  BenchRow noisy = row_of(4096);
  noisy.p95_s = 5 * noisy.p50_s;
  CHECK(judged({noisy, row_of(kMiB)}, healthy_machine()).empty());
  const auto verdicts = judged({noisy}, healthy_machine());
  REQUIRE(verdicts.size() == 2);
  CHECK(verdicts[0].code == "latency-bound");
  CHECK(verdicts[1].code == "high-variance");
  CHECK(verdicts[1].severity == "info");
}

TEST_CASE("a sweep that ends early is latency-bound, and so is a large vector that waits") {
  CHECK(only(judged({row_of(4096, 1e-5, 0), row_of(65536, 2e-5, 0)}, healthy_machine()),
             "latency-bound")
            .severity == "info");
  std::vector<BenchRow> rows;
  for (const std::uint64_t bytes : {kMiB, 4 * kMiB, 16 * kMiB}) {
    rows.push_back(row_of(bytes, 10e-3 + static_cast<double>(bytes) / 10e9, 0));
  }
  CHECK(only(judged(rows, healthy_machine()), "latency-bound").severity == "warning");
}

TEST_CASE("page faults of half a vector a call, from 64 MiB on") {
  std::vector<BenchRow> rows = {row_of(64 * kMiB)};
  rows[0].usage = {{.minor_faults = 8193}, {.minor_faults = 8192}};
  const Verdict verdict = only(judged(rows, healthy_machine()), "page-fault-collapse");
  CHECK(verdict.evidence ==
        "ring 64.00 MiB takes 8193 page faults a call: 50 % of the vector is "
        "mapped anew every time");
  rows[0].usage = {{.minor_faults = 2000}, {.minor_faults = 2000}};
  CHECK(judged(rows, healthy_machine()).empty());
  rows = {row_of(16 * kMiB)};
  rows[0].usage = {{.minor_faults = 2048}, {.minor_faults = 2048}};
  CHECK(judged(rows, healthy_machine()).empty());
}

TEST_CASE("verdicts of placement") {
  MachineRecord machine = healthy_machine();
  machine.hosts[0].usable_cpus = 1;
  const Verdict crowded = only(judged({}, machine), "oversubscribed");
  CHECK(crowded.evidence == "2 ranks share 1 usable CPUs on host h");
  machine = healthy_machine();
  machine.ranks[1].cpus = {0, 1};
  CHECK(only(judged({}, machine), "unbound").severity == "warning");
  CHECK(judge({.rows = {}, .miscounted_rows = {}, .machine = machine, .ranks_are_processes = false})
            .empty());
  machine.hosts[0].usable_cpus = 8;  // two of eight CPUs for a rank whose share is four
  CHECK(judged({}, machine).empty());
  machine.ranks[1].cpus = {0, 1, 2, 3, 4, 5};
  CHECK(only(judged({}, machine), "unbound").severity == "info");
  machine.ranks[1].numa_nodes = {0, 1};
  CHECK(only(judged({}, machine), "unbound").severity == "warning");
  machine.ranks[0].threads = machine.ranks[1].threads = 6;
  CHECK(judged({}, machine).empty());
  machine = healthy_machine();
  machine.ranks[1].cross_memory = "refused: Operation not permitted";
  const Verdict denied = only(judged({}, machine), "cma-denied");
  CHECK(denied.evidence.find("rank 1; 1 of 2 ranks") != std::string::npos);
}

TEST_CASE("sockets where RDMA is there or promised") {
  MachineRecord machine = healthy_machine();
  const std::vector<BenchRow> rows = {row_of(kMiB, 1e-3, 1e-3)};
  for (RankRecord& rank : machine.ranks) rank.environment = {{"OMPI_MCA_btl", "tcp,self"}};
  CHECK(judged(rows, machine).empty());
  Verdict verdict = only(judged(rows, machine, 25e9), "socket-fallback");
  CHECK(verdict.severity == "error");
  CHECK(verdict.confidence == "certain");
  CHECK(verdict.evidence.find("btl is tcp,self") != std::string::npos);
  CHECK(verdict.evidence.find("1.05 GB/s busbw") != std::string::npos);
  machine.hosts[0].start.rdma_ports = {{"mlx5_0", 1, "DOWN", "InfiniBand", 100, 0, 0}};
  CHECK(judged(rows, machine).empty());
  machine.hosts[0].start.rdma_ports[0].state = "ACTIVE";
  verdict = only(judged(rows, machine), "socket-fallback");
  CHECK(verdict.severity == "warning");
  CHECK(verdict.evidence.find("mlx5_0:1 of 12.50 GB/s") != std::string::npos);
  for (const char* btl : {"^openib", "vader,tcp,self", "openib,tcp,self"}) {
    for (RankRecord& rank : machine.ranks) rank.environment = {{"OMPI_MCA_btl", btl}};
    CHECK(judged(rows, machine).empty());
  }
  for (RankRecord& rank : machine.ranks) rank.environment = {{"UCX_TLS", "tcp,self"}};
  CHECK(only(judged(rows, machine), "socket-fallback").confidence == "certain");
}

TEST_CASE("a fifth of the promised rate across nodes is a suspicion") {
  MachineRecord machine = healthy_machine();
  machine.ranks[1].host = "g";
  machine.hosts[0].ranks = 1;
  machine.hosts.push_back(machine.hosts[0]);
  machine.hosts[1].host = "g";
  for (HostRecord& host : machine.hosts) host.usable_cpus = 1;
  CHECK(only(judged({row_of(kMiB)}, machine, 50e9), "socket-fallback").confidence == "suspected");
  CHECK(judged({row_of(kMiB)}, machine, 15e9).empty());
  CHECK(judged({row_of(kMiB)}, healthy_machine(), 50e9).empty());
}

TEST_CASE("the slower interface, and one rail of two") {
  MachineRecord machine = healthy_machine();
  const std::vector<BenchRow> rows = {row_of(kMiB)};  // 20 calls: at least 10 MiB cross a boundary
  auto& start = machine.hosts[0].start;
  auto& end = machine.hosts[0].end;
  start.interfaces = {{"eth0", "up", 1000, 500, 0}, {"eth1", "up", 25000, 0, 0}};
  end = start;
  end.interfaces[0].sent_bytes += 9 * kMiB;
  CHECK(judged(rows, machine).empty());
  end.interfaces[0].sent_bytes += 9 * kMiB;
  const Verdict slower = only(judged(rows, machine), "wrong-interface");
  CHECK(slower.evidence.find("eth0 (1 Gb/s) carried 18.87 MB") != std::string::npos);
  CHECK(slower.next_step.find("btl_tcp_if_include=eth1") != std::string::npos);
  start.interfaces[1].state = "down";
  CHECK(judged(rows, machine).empty());
  start.interfaces[0].speed_mbps = 25000;
  start.interfaces[1].state = "up";
  CHECK(only(judged(rows, machine), "one-rail").evidence.find("eth1 (25 Gb/s)") !=
        std::string::npos);
  end.interfaces[1].received_bytes = 6 * kMiB;
  CHECK(judged(rows, machine).empty());
  start.rdma_ports = {{"mlx5_0", 1, "ACTIVE", "InfiniBand", 100, 0, 0},
                      {"mlx5_1", 1, "ACTIVE", "InfiniBand", 100, 0, 0}};
  end.rdma_ports = start.rdma_ports;
  end.rdma_ports[1].received_bytes = 40 * kMiB;
  CHECK(only(judged(rows, machine), "one-rail").cause.starts_with("one of 2 adapters"));
}

TEST_CASE("ranks that do not see each other") {
  const Verdict verdict = singletons_verdict(4, "mpirun started 4 ranks, but MPI sees 1");
  CHECK(verdict.severity == "error");
  CHECK(verdict.threshold.find("(4)") != std::string::npos);
}

}  // namespace
}  // namespace nqd::collectives
