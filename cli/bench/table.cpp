#include "cli/bench/table.h"

#include <algorithm>
#include <cstdio>
#include <string>

#include "cli/bench/session.h"
#include "collectives/communicator.h"

namespace nqd::cli {

using collectives::BenchResult;
using collectives::BenchRow;
using collectives::Communicator;

void print_header(const Communicator& world, const collectives::BenchOptions& options) {
  std::printf("# nqd bench %s, %d ranks (%s), %s\n", bench_name(options).c_str(), world.size(),
              std::string(world.backend()).c_str(), options.in_place ? "in place" : "out of place");
  if (options.root != 0) std::printf("# root %d\n", options.root);
  std::printf(
      "# warm-up %d, iterations %d; a sample is the maximum over ranks; time and\n"
      "# bandwidths are of the median, 1 GB/s = 10^9 bytes/s\n",
      options.warmup, options.iterations);
  std::printf("# %12s %12s %9s %6s %18s %10s %10s %8s %8s %7s\n", "size", "count", "type", "redop",
              "algorithm", "time", "p95", "algbw", "busbw", "#wrong");
  std::printf("# %12s %12s %9s %6s %18s %10s %10s %8s %8s %7s\n", "(B)", "(elements)", "", "", "",
              "(us)", "(us)", "(GB/s)", "(GB/s)", "");
  std::fflush(stdout);
}

void print_row(const BenchRow& row, std::size_t element_bytes) {
  std::printf("  %12llu %12llu %9s %6s %18s %10.2f %10.2f %8.3f %8.3f %7s\n",
              static_cast<unsigned long long>(row.effective_bytes),
              static_cast<unsigned long long>(row.effective_bytes / element_bytes),
              row.dtype.c_str(), row.op.c_str(), row.algorithm.c_str(), row.p50_s * 1e6,
              row.p95_s * 1e6, row.algbw_gbps, row.busbw_gbps,
              row.checked ? std::to_string(row.wrong).c_str() : "N/A");
  std::fflush(stdout);
}

void print_footer(const BenchResult& result) {
  const auto counted =
      std::count_if(result.rows.begin(), result.rows.end(),
                    [](const BenchRow& row) { return row.bytes_sent_per_rank > 0; });
  std::printf("# bytes sent were counted in %d of %d rows (library traffic cannot be)\n",
              static_cast<int>(counted), static_cast<int>(result.rows.size()));
  print_verdicts(result.verdicts);
}

}  // namespace nqd::cli
