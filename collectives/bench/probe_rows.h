// What `nqd bench memory`, `pair-matrix` and `stragglers` record.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nqd::collectives {

// One kernel on vectors of one size, in shared buffers. `traffic_bytes` is what a call reads and
// writes: copy and nt_copy 2 S, read S, reduce 3 S (two inputs, one output); the reads that stores
// cause are not counted. Statistics are of samples_s; bandwidth = traffic / p50.
struct MemoryRow {
  std::string kernel;  // "copy", "read", "reduce", "nt_copy"
  // The rank that ran alone, or -1: all ranks together, each sample the maximum over ranks and the
  // traffic that of all ranks.
  int rank = -1;
  std::uint64_t bytes = 0;  // of one vector (S)
  std::uint64_t traffic_bytes = 0;
  std::vector<double> samples_s;
  double p50_s = 0;
  double bandwidth_gbps = 0;
};

// The least time of an all_reduce of `bytes` among ranks of one host that write into each other's
// registered buffers: each reads its n-th of n inputs and writes it to n outputs, S bytes in and S
// bytes out, which is what a copy of S moves. So limit_s is the p50 of the faster of copy and
// nt_copy with all ranks together, and limit_busbw_gbps = bytes / limit_s · 2(n−1)/n.
struct AllReduceLimit {
  std::uint64_t bytes = 0;
  double limit_s = 0;
  double limit_busbw_gbps = 0;
};

// Ranks a < b, alone on the fabric: the mean over `iterations` round trips of a message, halved.
struct PairRow {
  int a = 0;
  int b = 0;
  double latency_s = 0;       // of kPairSmallBytes
  double bandwidth_gbps = 0;  // of the large size: bytes / half a round trip
};
inline constexpr std::uint64_t kPairSmallBytes = 8;

// How late a rank came to all_reduces after equal work: behind the first rank of each iteration.
struct StragglerRow {
  int rank = 0;
  std::string host;
  double mean_late_s = 0;
  double p95_late_s = 0;
  double last_share = 0;  // of the iterations, in which it came last
};

}  // namespace nqd::collectives
