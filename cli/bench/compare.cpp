#include "cli/bench/compare.h"

#include <algorithm>
#include <cstdio>

#include "base/units.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

using collectives::Comparison;
using collectives::RowChange;

std::string row_name(const collectives::BenchRow& row) {
  return row.collective + " " + row.algorithm + (row.registered ? " registered " : " ") +
         format_bytes_binary(static_cast<double>(row.effective_bytes));
}

std::string change_text(const RowChange& change) {
  char text[64];
  std::snprintf(text, sizeof text, "%+.1f %%, p = %.2g", 100 * change.change, change.p);
  return format_seconds(change.old_p50_s) + " -> " + format_seconds(change.new_p50_s) + " (" +
         text + ")";
}

}  // namespace

std::vector<collectives::BenchRow> read_old_rows(const std::string& path) {
  reports::Evidence evidence = reports::read_evidence(path);
  if (evidence.envelope.kind != "bench") {
    throw Error(ExitCode::kUsage, "NQD2104",
                "--compare needs a bench document, and " + path + " is evidence of another kind",
                "write one with `nqd bench ... --output FILE`");
  }
  return std::move(evidence.bench.rows);
}

void judge_changes(const Comparison& comparison, const std::string& path, double tolerance,
                   std::vector<collectives::Verdict>& verdicts) {
  char limit[32];
  std::snprintf(limit, sizeof limit, "%g %%", 100 * tolerance);
  if (comparison.changes.empty()) {
    verdicts.push_back({"not-compared", "warning", "certain",
                        "no row of " + path + " measured what one of these did", "a row in common",
                        "another collective, algorithm, type, size, placement or number of ranks",
                        "repeat the sweep with the options of the old document"});
    return;
  }
  const RowChange* worst = nullptr;
  std::size_t slower = 0;
  for (const RowChange& change : comparison.changes) {
    if (!change.regressed) continue;
    ++slower;
    if (worst == nullptr || change.change > worst->change) worst = &change;
  }
  if (worst == nullptr) return;
  verdicts.push_back(
      {"regression", "error", "likely",
       std::to_string(slower) + " of " + std::to_string(comparison.changes.size()) +
           " rows slower than in " + path + "; " + row_name(*worst->row) + " " +
           change_text(*worst),
       "at most " + std::string(limit) + " slower (Mann-Whitney, p < 0.01)",
       "the fabric, the library or the load of the hosts has changed",
       "repeat both sweeps on quiet hosts; compare the environments of the two documents"});
}

void print_changes(const Comparison& comparison) {
  for (const RowChange& change : comparison.changes) {
    std::printf("# %-44s %s%s\n", row_name(*change.row).c_str(), change_text(change).c_str(),
                change.regressed ? "  SLOWER" : "");
  }
  if (!comparison.unmatched.empty()) {
    std::printf("# %d rows have no counterpart in the old document\n",
                static_cast<int>(comparison.unmatched.size()));
  }
}

}  // namespace nqd::cli
