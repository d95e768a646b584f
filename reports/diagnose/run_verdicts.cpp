#include "reports/diagnose/run_verdicts.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "base/units.h"
#include "reports/page/format.h"

namespace nqd::reports {
namespace {

using collectives::BenchRow;
using collectives::Verdict;
using Verdicts = std::vector<Verdict>;

std::string row_name(const BenchRow& row) {
  return row.collective + " " + short_bytes(static_cast<double>(row.effective_bytes)) +
         (row.in_place ? " in place" : " out of place");
}

void judge_results(const NcclTestsRun& run, Verdicts& verdicts) {
  std::uint64_t wrong = 0;
  const BenchRow* first = nullptr;
  for (const BenchRow& row : run.rows) {
    if (row.wrong > 0 && first == nullptr) first = &row;
    wrong += row.wrong;
  }
  const std::uint64_t bounds = run.out_of_bounds.value_or(0);
  if (wrong == 0 && bounds == 0) return;
  std::string evidence;
  if (first != nullptr) {
    evidence = std::to_string(wrong) + " wrong elements, first at " + row_name(*first);
  }
  if (bounds > 0) {
    evidence += (evidence.empty() ? "" : "; ") + std::string("Out of bounds values : ") +
                std::to_string(bounds);
  }
  verdicts.push_back({"wrong-result", "error", "certain", evidence, "0 wrong elements",
                      "NCCL, a driver or a device corrupts data",
                      "run on halves of the ranks to find the device; dcgmi diag -r 3, "
                      "nvidia-smi -q -d ECC; try without NCCL_PROTO and NCCL_ALGO settings"});
}

void judge_worlds(const NcclTestsRun& run, Verdicts& verdicts) {
  std::set<std::pair<std::string, std::int64_t>> processes;
  for (const NcclTestsDevice& device : run.devices) processes.insert({device.host, device.pid});
  const bool zero =
      !run.rows.empty() && std::all_of(run.rows.begin(), run.rows.end(),
                                       [](const BenchRow& row) { return row.busbw_gbps == 0; });
  // Only all_reduce and its halves have a factor that is 0 for one rank.
  const bool told = run.ranks == 0 && zero && run.average_busbw_gbps.value_or(1) == 0;
  if (run.ranks != 1 && !told && !run.separate_worlds) return;
  std::string evidence = "rank 0 of 1";
  if (run.separate_worlds) {
    evidence = std::to_string(processes.size()) + " processes, and several call themselves rank 0";
  } else if (told) {
    evidence = "Avg bus bandwidth : 0 with times above 0";
  }
  verdicts.push_back(
      {"singletons", "error", run.separate_worlds || run.ranks == 1 ? "certain" : "likely",
       evidence, "one world of all ranks",
       "each process ran alone: built without MPI, or started by another MPI library's mpirun; "
       "busbw of one rank is 0 by definition",
       "build nccl-tests with MPI=1 MPI_HOME=… and start it with that library's mpirun; on one "
       "node -g N drives N GPUs from one process"});
}

void judge_devices(const NcclTestsRun& run, Verdicts& verdicts) {
  if (run.separate_worlds) return;
  std::map<std::pair<std::string, std::string>, int> owners;
  for (const NcclTestsDevice& device : run.devices) {
    if (device.bus_id.empty()) continue;
    const auto [owner, is_new] = owners.try_emplace({device.host, device.bus_id}, device.rank);
    if (is_new || owner->second == device.rank) continue;
    verdicts.push_back({"duplicate-gpu", "error", "certain",
                        "ranks " + std::to_string(owner->second) + " and " +
                            std::to_string(device.rank) + " both use " + device.bus_id + " of " +
                            device.host,
                        "one rank a GPU", "two ranks were given one GPU",
                        "start at most as many ranks on a host as it has GPUs"});
    return;
  }
}

void judge_end(const NcclTestsRun& run, Verdicts& verdicts) {
  if (run.complete) return;
  const bool none = run.rows.empty();
  verdicts.push_back({"incomplete-run", "warning", "suspected",
                      none ? "a header of nccl-tests and no row"
                           : "no \"Avg bus bandwidth\" line after " + row_name(run.rows.back()),
                      "the run's last lines",
                      none ? "the program hangs or died before its first size"
                           : "the program hangs or died at the next size, or the text was cut",
                      "run with NCCL_DEBUG=INFO and give its log too; -T 60 makes nccl-tests stop "
                      "after 60 s"});
}

constexpr std::size_t kMinSamples = 10;
constexpr double kMaxSpread = 2;

// With all iterations their 95th percentile counts; the text of -I gives the 99th alone.
double spread_of(const BenchRow& row) {
  const double high = row.samples_s.size() >= kMinSamples ? row.p95_s : row.p99_s;
  return high / row.p50_s;
}

void judge_spread(const NcclTestsRun& run, Verdicts& verdicts) {
  const BenchRow* widest = nullptr;
  std::size_t wide = 0;
  for (const BenchRow& row : run.rows) {
    if (!(spread_of(row) > kMaxSpread)) continue;
    ++wide;
    if (widest == nullptr || spread_of(row) > spread_of(*widest)) widest = &row;
  }
  if (widest == nullptr) return;
  const bool all = widest->samples_s.size() >= kMinSamples;
  verdicts.push_back({"high-variance", "warning", "likely",
                      std::to_string(wide) + " of " + std::to_string(run.rows.size()) + " rows; " +
                          row_name(*widest) + (all ? ": p50 " : ": average ") +
                          format_seconds(widest->p50_s) + (all ? ", p95 " : ", p99 ") +
                          format_seconds(all ? widest->p95_s : widest->p99_s),
                      all ? "p95 <= 2 x p50" : "p99 <= 2 x the average",
                      "other jobs on the fabric, congestion, clocks that drop, or a flapping link",
                      "repeat at a quiet time; -J FILE -I 1 keeps every iteration, and shows the "
                      "rank that is late"});
}

}  // namespace

void judge_nccl_tests(const NcclTestsRun& run, Verdicts& verdicts) {
  judge_results(run, verdicts);
  judge_worlds(run, verdicts);
  judge_devices(run, verdicts);
  judge_end(run, verdicts);
  judge_spread(run, verdicts);
}

}  // namespace nqd::reports
