// What the figures of a sweep say is wrong.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/bench/fabric_promise.h"
#include "planner/spec.h"
#include "reports/diagnose/diagnosis.h"
#include "reports/nccl_tests/nccl_tests.h"

namespace nqd::reports {

// "wrong-result", "singletons", "duplicate-gpu", "incomplete-run", "high-variance" of nccl-tests
// output.
void judge_nccl_tests(const NcclTestsRun& run, std::vector<collectives::Verdict>& verdicts);

// Rows of one curve whose bandwidth no longer grows with the size: those from a quarter of the
// largest size on, when that is at least 16 MiB and busbw grew by less than 15 % over the last
// doubling. A lone size is taken for a plateau from 256 MiB on. `best` is the row with the highest
// busbw among them.
struct Plateau {
  const collectives::BenchRow* best = nullptr;
  std::string why_not;  // a sentence, when there is none
};
Plateau find_plateau(const std::vector<const collectives::BenchRow*>& curve);

// Bus bandwidth, GB/s, that the cluster promises for large messages.
struct Expectation {
  double busbw_gbps = 0;
  double line_gbps = 0;  // across nodes: what the adapters carry; 0 inside a node
  std::string basis;
};
std::optional<Expectation> expected_busbw(const planner::ClusterSpec& cluster,
                                          const collectives::FabricPromise& promise,
                                          const MeasuredRun& run, double bytes);

// "socket-fallback" (suspected), "below-expected", "latency-bound". `network` is what a log says of
// the network in use, empty when unknown. Sizes below the plateau get no verdict on bandwidth; why
// a curve has none goes to `notes`.
void judge_bandwidth(const MeasuredRun& run, const planner::ClusterSpec* cluster,
                     const collectives::FabricPromise& promise, const std::string& network,
                     std::vector<collectives::Verdict>& verdicts, std::vector<std::string>& notes);

}  // namespace nqd::reports
