// The verified sweep of one collective: what `nqd bench` runs and `nqd calibrate` reads.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <optional>
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
  int iterations = 20;  // with time_s: at most so many calls between two looks at the clock
  // > 0: calls go on until the 95 % interval of the median is within kTightInterval of it, or so
  // many seconds have passed, or kMaxTimedCalls were made. Rank 0 decides for all.
  double time_s = 0;
  // The whole sweep so many times; more than once: in an order shuffled by `seed`.
  int repeat = 1;
  std::uint64_t seed = 1;
  bool check = true;
  bool in_place = false;
  bool registered = false;  // vectors in shared buffers
  // kCanonical: only algorithms that are (collectives/numerics.h); kAuto is the best of them for
  // the size.
  Numerics numerics = Numerics::kFast;
  // What the user's cluster file says of the network between nodes, for the verdicts; 0 = nothing.
  double promised_bytes_per_s = 0;
  // Calls rotate through copies of the vectors that fill the last-level cache twice.
  bool cold = false;
  std::uint64_t cache_bytes = 0;  // of that cache, when cold; run_bench fills it in
  int root = 0;                   // of broadcast, reduce, gather and scatter
  // kSendRecv between these two alone, there and back ("pingpong"); else around the ring of ranks.
  std::optional<std::array<int, 2>> pair{};
};
inline constexpr double kTightInterval = 0.02;  // half width ÷ median
inline constexpr std::size_t kMaxTimedCalls = 10'000;

// "pingpong" where options.pair is set, else the collective's name.
std::string bench_name(const BenchOptions& options);
// What one rank may allocate for the sweep: input, output, as much scratch, and copies when cold.
std::uint64_t bench_memory_bytes(const BenchOptions& options);
// Of this host: what the copies of a cold sweep must exceed twice. Throws Error (kUsage, NQD2104)
// where the system does not tell.
std::uint64_t last_level_cache_bytes();

// One size under one algorithm. samples_s are the raw per-iteration times (of a pingpong: half of
// the round trip), each already the maximum over ranks; statistics are computed from them, all
// repeats together. Bandwidths use p50: algbw = effective bytes / time, busbw = algbw × bus_factor;
// 1 GB/s = 10^9 bytes/s.
struct BenchRow {
  std::string collective;
  std::string backend;
  std::string transport;
  std::string algorithm;            // what ran
  std::string requested_algorithm;  // what was asked for: the same, or auto
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
  double p50_low_s = 0, p50_high_s = 0;  // 95 % interval of the median; 0: too few samples
  std::vector<double> repeat_p50_s;      // the median of each repeat
  std::vector<int> order;                // each repeat's place among all measurements, from 0
  int copies = 1;                        // of the vectors, more than one when cold
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

// One kernel of the training engine on one shape, while `ranks` ranks of a host run it at once
// (`nqd bench engine`): planner/reference/kernels.h names the kernels and says what the shape and
// items and units are. The kernel "step" is a whole step of one rank, without shape.
struct KernelRow {
  std::string kernel;
  std::int64_t m = 0, n = 0, k = 0;
  double items = 0, units = 0;
  double calls = 0;  // of a step of the config; 0: another shape, for the fit alone
  std::string numerics;
  std::string precision;
  int threads = 1;
  int ranks = 1;
  int cpus = 0;                     // that the ranks of the host may use together
  std::vector<double> samples_s{};  // of one call on the slowest rank, by its median
  double p50_s = 0;
};

struct BenchResult {
  BenchOptions options;
  std::vector<BenchRow> rows;
  std::vector<GemmRow> gemm_rows;
  std::vector<KernelRow> kernel_rows;
  double memory_bandwidth_bytes_per_s = 0;  // bench gemm also measures a copy; 0 = not measured
  std::vector<MemoryRow> memory_rows;
  std::vector<AllReduceLimit> all_reduce_limits;
  std::vector<PairRow> pairs;
  std::vector<StragglerRow> stragglers;
  MachineRecord machine;  // without ranks when nobody communicated
  std::vector<Verdict> verdicts;
};

// (largest − smallest) ÷ median of the repeats' medians; 0 for one repeat.
double repeat_spread(const BenchRow& row);

// The sizes of a sweep, ascending, without duplicates. Throws Error (kUsage) for begin > end,
// factor <= 1 with step 0, or a size of 0.
std::vector<std::uint64_t> sweep_sizes(const BenchOptions& options);

// Collective. Verifies each size before it is timed (inputs differ by rank and element and the sum
// is exact), times `iterations` calls each after a barrier, reduces each sample by max over ranks.
// Each algorithm gets fresh buffers. Every rank gets the same result: rows by algorithm, then size,
// whatever the order of measurement. `on_row` is called on rank 0 as rows complete.
// Throws Error (kNo, NQD3005) for one rank: a collective of one rank moves nothing.
BenchResult run_bench(Communicator& world, const BenchOptions& options,
                      const std::function<void(const BenchRow&)>& on_row = {});

// Sorted-sample percentile, nearest rank (q in [0,1]).
double percentile(std::vector<double> samples, double q);

}  // namespace nqd::collectives
