#include "collectives/bench/verdicts.h"

#include <unistd.h>

#include <algorithm>
#include <array>
#include <cstdio>
#include <string>

#include "base/units.h"
#include "collectives/bench/series.h"

namespace nqd::collectives {
namespace {

std::string at(const BenchRow& row) {
  return row.algorithm + " " + format_bytes_binary(static_cast<double>(row.effective_bytes));
}

std::string rounded(double value, int digits) {
  std::array<char, 48> text{};
  std::snprintf(text.data(), text.size(), "%.*f", digits, value);
  return text.data();
}

void judge_results(std::span<const BenchRow> rows, std::vector<Verdict>& verdicts) {
  std::uint64_t wrong = 0;
  std::string first;
  for (const BenchRow& row : rows) {
    if (row.wrong > 0 && first.empty()) first = at(row);
    wrong += row.wrong;
  }
  if (wrong == 0) return;
  verdicts.push_back({"wrong-result", "error", "certain",
                      std::to_string(wrong) + " wrong elements, first at " + first,
                      "0 wrong elements",
                      "the collective, the transport or the memory corrupts data",
                      "run again with ring, tree and library to see which one fails; test the "
                      "memory of the hosts"});
}

void judge_counts(const Findings& findings, std::vector<Verdict>& verdicts) {
  const std::vector<std::size_t>& miscounted = findings.miscounted_rows;
  if (miscounted.empty()) return;
  const BenchRow& row = findings.rows[miscounted.front()];
  verdicts.push_back({"byte-count-mismatch", "error", "certain",
                      std::to_string(miscounted.size()) + " rows; " + at(row) + " sent " +
                          std::to_string(row.bytes_sent_per_rank) + " bytes a rank, predicted " +
                          std::to_string(row.predicted_bytes_per_rank),
                      "counted = predicted, on every rank",
                      "an algorithm and its cost function have parted",
                      "report it as a defect of nqd, with this evidence"});
}

// The sizes at which glibc maps and unmaps every temporary anew: its threshold for that stops
// growing at 32 MiB (mallopt(3), M_MMAP_THRESHOLD), and an all_reduce's temporary is half a vector.
constexpr std::uint64_t kCollapseMinBytes = std::uint64_t{64} << 20;
// Half a vector in pages was measured of Open MPI 4.1.4 and MPICH 4.0.2; healthy calls have none.
// Half of that leaves room for memory that is partly kept.
constexpr double kCollapseShare = 0.5;

void judge_faults(std::span<const BenchRow> rows, std::vector<Verdict>& verdicts) {
  const auto page = static_cast<double>(::sysconf(_SC_PAGESIZE));
  const BenchRow* worst = nullptr;
  double most = 0;
  for (const BenchRow& row : rows) {
    if (row.effective_bytes < kCollapseMinBytes) continue;
    const double usual = static_cast<double>(row.effective_bytes) / 2 / page;
    for (const RankUsage& usage : row.usage) {
      if (usage.minor_faults < kCollapseShare * usual || usage.minor_faults / usual <= most) {
        continue;
      }
      most = usage.minor_faults / usual;
      worst = &row;
    }
  }
  if (worst == nullptr) return;
  const double faults = most * static_cast<double>(worst->effective_bytes) / 2 / page;
  verdicts.push_back(
      {"page-fault-collapse", "warning", "certain",
       at(*worst) + " takes " + rounded(faults, 0) + " page faults a call: " +
           rounded(100 * faults * page / static_cast<double>(worst->effective_bytes), 0) +
           " % of the vector is mapped anew every time",
       "fewer than effective_bytes / 4 pages a call, from 64 MiB on",
       "the collective allocates a temporary of more than 32 MiB in every call, which malloc maps "
       "and unmaps",
       "run with MALLOC_MMAP_MAX_=0 MALLOC_TRIM_THRESHOLD_=8589934592 (mpirun -x NAME=VALUE), or "
       "with --algorithm direct"});
}

// More than half of the time is latency: faster links would not help.
constexpr double kAlphaShare = 0.5;

void judge_latency(std::span<const BenchRow> rows, std::vector<Verdict>& verdicts) {
  for (const Series& series : series_of(rows)) {
    const BenchRow& largest = *series.back();
    const double alpha_share = fit_line(series).alpha_s / largest.p50_s;
    const bool ended_early = plateau_of(series).empty();
    if (!ended_early && alpha_share <= kAlphaShare) continue;
    std::string evidence = at(largest) + " takes " + format_seconds(largest.p50_s);
    if (series.size() > 1) {
      evidence += ", of which " + format_seconds(alpha_share * largest.p50_s) +
                  " would pass without any bytes";
    }
    // A short sweep was asked for; a large vector that waits was not.
    verdicts.push_back(
        {"latency-bound", ended_early ? "info" : "warning", ended_early ? "certain" : "likely",
         evidence, "a size of 1 MiB or more, and at the largest latency <= half of the time",
         ended_early ? "the sweep ends before bandwidth decides; its busbw says nothing of the "
                       "fabric"
                     : "every call waits longer than it transfers: latency, not bandwidth, is slow",
         ended_early ? "compare p50 of these sizes only, or measure up to --end 64M or more"
                     : "look for a slow rank (nqd bench stragglers), a slow pair (nqd bench "
                       "pair-matrix) or too many ranks for the algorithm"});
  }
}

// Fewer samples have no 95th percentile to speak of.
constexpr std::size_t kMinSamples = 10;
constexpr double kMaxSpread = 2;

bool is_wide(const BenchRow* row) {
  return row->samples_s.size() >= kMinSamples && row->p95_s > kMaxSpread * row->p50_s;
}

// Small sizes are judged where there are no others: one wake-up of another process outlasts them.
void judge_spread(std::span<const BenchRow> rows, std::vector<Verdict>& verdicts) {
  Series judged;
  for (const Series& series : series_of(rows)) {
    const Series plateau = plateau_of(series);
    judged.insert(judged.end(), plateau.begin(), plateau.end());
  }
  const bool bandwidth = !judged.empty();
  if (!bandwidth) {
    for (const BenchRow& row : rows) judged.push_back(&row);
  }
  const auto wide = std::count_if(judged.begin(), judged.end(), is_wide);
  if (wide == 0) return;
  const auto spread = [](const BenchRow* row) {
    return is_wide(row) ? row->p95_s / row->p50_s : 0;
  };
  const BenchRow* widest = *std::max_element(
      judged.begin(), judged.end(),
      [&](const BenchRow* a, const BenchRow* b) { return spread(a) < spread(b); });
  verdicts.push_back({"high-variance", bandwidth ? "warning" : "info", "likely",
                      std::to_string(wide) + " of " + std::to_string(judged.size()) +
                          (bandwidth ? " plateau rows; " : " rows; ") + at(*widest) + " has p50 " +
                          format_seconds(widest->p50_s) + ", p95 " + format_seconds(widest->p95_s),
                      "p95 <= 2 x p50", "other work on the hosts, or more ranks than CPUs",
                      "repeat on quiet hosts, or with more iterations"});
}

}  // namespace

void judge_rows(const Findings& findings, std::vector<Verdict>& verdicts) {
  judge_results(findings.rows, verdicts);
  judge_counts(findings, verdicts);
  judge_faults(findings.rows, verdicts);
  judge_latency(findings.rows, verdicts);
  judge_spread(findings.rows, verdicts);
}

std::vector<Verdict> judge(const Findings& findings) {
  std::vector<Verdict> verdicts;
  judge_placement(findings, verdicts);
  judge_fabric(findings, verdicts);
  judge_rows(findings, verdicts);
  return verdicts;
}

}  // namespace nqd::collectives
