// The verified sweep of one collective: what `nqd bench` runs and `nqd calibrate` reads.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/bench/machine_record.h"
#include "collectives/bench/probe_rows.h"
#include "collectives/bench/usage.h"
#include "collectives/communicator.h"
#include "collectives/numerics.h"

namespace nqd::collectives {

struct BenchOptions {
  Collective collective = Collective::kAllReduce;
  // Those that nqd or the library runs here when `all_algorithms`.
  std::vector<Algorithm> algorithms = {Algorithm::kRing};
  bool all_algorithms = false;
  DType dtype = DType::kFloat32;
  ReduceOp op = ReduceOp::kSum;
  std::uint64_t begin_bytes = 4096;
  std::uint64_t end_bytes = 64ull << 20;
  double factor = 2;             // next size = size · factor
  std::uint64_t step_bytes = 0;  // > 0: next size = size + step instead
  int warmup = 5;
  int iterations = 20;
  bool check = true;
  bool in_place = false;
  bool registered = false;  // vectors in shared buffers
  // kCanonical: only algorithms that are (collectives/numerics.h); kAuto is the best of them for
  // the size.
  Numerics numerics = Numerics::kFast;
  // What the user's cluster file says of the network between nodes, for the verdicts; 0 = nothing.
  double promised_bytes_per_s = 0;
};

// One size under one algorithm. samples_s are the raw per-iteration times, each already the maximum
// over ranks; statistics are computed from them. Bandwidths use p50: algbw = effective bytes /
// time, busbw = algbw × bus_factor; 1 GB/s = 10^9 bytes/s.
struct BenchRow {
  std::string collective;
  std::string backend;
  std::string transport;
  std::string algorithm;
  bool in_place = false;
  bool registered = false;
  std::string dtype;
  std::string op;
  std::string numerics = "fast";  // as asked for
  std::uint64_t requested_bytes = 0;
  std::uint64_t effective_bytes = 0;
  int ranks = 0;
  std::vector<double> samples_s;
  double min_s = 0, p50_s = 0, p95_s = 0, p99_s = 0, max_s = 0;
  double algbw_gbps = 0, busbw_gbps = 0;
  std::uint64_t wrong = 0;  // wrong elements over all ranks in the verification call
  bool checked = true;
  std::uint64_t bytes_sent_per_rank = 0;  // counted, one call, maximum over ranks; 0 for library
  std::uint64_t predicted_bytes_per_rank = 0;  // cost.h, the same
  std::vector<RankUsage> usage;                // by rank, a call of the timed loop with its barrier
};

struct Verdict {
  std::string code;        // "oversubscribed", "wrong-result", …
  std::string severity;    // "info", "warning", "error"
  std::string confidence;  // "certain", "likely", "suspected"
  std::string evidence;
  std::string threshold;
  std::string cause;
  std::string next_step;
};

// Square sgemm rates for the compute side of a calibration (`nqd bench gemm`).
struct GemmRow {
  std::int64_t m = 0, n = 0, k = 0;
  std::string layout;   // "NT", "NN", "TN"
  std::string library;  // "openblas", "onednn", "eigen"
  int threads = 1;
  std::vector<double> samples_s;
  double p50_s = 0;
  double gflops = 0;  // 2mnk / p50 / 1e9
};

struct BenchResult {
  BenchOptions options;
  std::vector<BenchRow> rows;
  std::vector<GemmRow> gemm_rows;
  double memory_bandwidth_bytes_per_s = 0;  // bench gemm also measures a copy; 0 = not measured
  std::vector<MemoryRow> memory_rows;
  std::vector<AllReduceLimit> all_reduce_limits;
  std::vector<PairRow> pairs;
  std::vector<StragglerRow> stragglers;
  MachineRecord machine;  // without ranks when nobody communicated
  std::vector<Verdict> verdicts;
};

// The sizes of a sweep, ascending, without duplicates. Throws Error (kUsage) for begin > end,
// factor <= 1 with step 0, or a size of 0.
std::vector<std::uint64_t> sweep_sizes(const BenchOptions& options);

// Collective. Verifies each size before it is timed (inputs differ by rank and element and the sum
// is exact), times `iterations` calls each after a barrier, reduces each sample by max over ranks.
// Every rank gets the same result. `on_row` is called on rank 0 as rows complete.
// Throws Error (kNo, NQD3005) for one rank: a collective of one rank moves nothing.
BenchResult run_bench(Communicator& world, const BenchOptions& options,
                      const std::function<void(const BenchRow&)>& on_row = {});

// Sorted-sample percentile, nearest rank (q in [0,1]).
double percentile(std::vector<double> samples, double q);

}  // namespace nqd::collectives
