// The canary: a few seconds before hours are spent, every rank shows what its device and its links
// do, beside the other ranks and beside a calibration. docs/acceptance.md describes it.
#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/communicator.h"
#include "planner/spec.h"

namespace nqd::engine {

// What a rank's device did, the best of several rounds: what stays slow in all of them is slow.
struct CanaryDevice {
  int rank = 0;
  std::string host;
  // FLOP/s of a fixed set of products, all ranks at once, by the clock and by the time that the
  // thread had a CPU.
  double gemm_flops = 0;
  double gemm_flops_per_cpu_s = 0;
  double cpu_share = 0;  // of the time of the products in which the thread had a CPU
  // Bytes read and written by a copy (engine/gemm/gemm_bench.h), one rank of a host at a time.
  double copy_bytes_per_s = 0;
  double copy_bytes_per_cpu_s = 0;
};

// What a healthy machine does, from a calibration. 0: it does not say.
struct CanaryExpectation {
  std::string source;  // empty: no calibration
  double gemm_flops = 0;
  double copy_bytes_per_s = 0;
  double inside_link_bytes_per_s = 0;  // messages of kCanaryMessageBytes between ranks of one host
  double across_link_bytes_per_s = 0;  // of two hosts
};
inline constexpr std::uint64_t kCanaryMessageBytes = std::uint64_t{1} << 20;
// Of the rates and the curves of send_recv on two ranks (`nqd bench pingpong`) that hold the
// message's size; of several the slowest.
CanaryExpectation canary_expectation(const std::vector<planner::CalibratedCurve>& curves,
                                     double gemm_flops, double copy_bytes_per_s,
                                     std::string source);

enum class CanaryTest : std::uint8_t { kGemm, kCpuShare, kCopy, kLatency, kBandwidth };
std::string_view name(CanaryTest test);  // "gemm", "cpu_share", "copy", "latency", "bandwidth"

// One device or link that is slow. `rank` with `peer` −1 is a device, or a rank that is slow in all
// of its links; else the link between the two.
struct CanaryFinding {
  CanaryTest test = CanaryTest::kGemm;
  int rank = -1;
  int peer = -1;
  std::string host;
  std::string peer_host;
  double measured = 0;  // FLOP/s, share, bytes/s, s, bytes/s
  double expected = 0;
  bool against_calibration = false;  // else against the other ranks
  double score = 0;                  // robust z of a device among its peers; 0: not by that
};

struct CanaryResult {
  std::vector<CanaryDevice> devices;  // by rank
  std::vector<collectives::PairRow> links;
  CanaryExpectation expectation;
  std::vector<CanaryFinding> findings;
  // Hosts whose ranks share their CPUs with other work or with one another: not compared.
  std::vector<std::string> busy_hosts;
  collectives::MachineRecord machine;
  int passes = 0;
  double seconds = 0;
  bool healthy() const { return findings.empty(); }
  // Of the findings that name a rank, each once.
  std::vector<std::string> slow_hosts() const;
};

// Collective; the same result on every rank. One pass measures; where it finds something, up to two
// more do, and a finding counts that is left in the best of all of them. A second or so a pass, and
// 0.2 s more for every further rank of a host.
CanaryResult run_canary(collectives::Communicator& world, const CanaryExpectation& expectation);

// The verdicts of the findings ("slow-device", "slow-link": errors) and of busy hosts ("busy-host":
// a warning).
std::vector<collectives::Verdict> canary_verdicts(const CanaryResult& result);

}  // namespace nqd::engine
