#include "cli/bench/expect.h"

#include <algorithm>
#include <cstdio>

#include "base/units.h"

namespace nqd::cli {
namespace {

using collectives::BenchRow;
using planner::Expectation;

std::string gbps(double value) {
  char text[32];
  std::snprintf(text, sizeof text, "%.4g GB/s", value);
  return text;
}

bool applies(const Expectation& expectation, const BenchRow& row) {
  return row.collective == expectation.collective &&
         (expectation.algorithm.empty() || row.algorithm == expectation.algorithm) &&
         row.effective_bytes >= expectation.min_bytes &&
         row.effective_bytes <= expectation.max_bytes;
}

// By how much the row misses what is expected; at most 1 where it holds.
double excess(const Expectation& expectation, const BenchRow& row) {
  double worst = 0;
  if (expectation.min_busbw_gbps) worst = *expectation.min_busbw_gbps / row.busbw_gbps;
  if (expectation.max_p50_s) worst = std::max(worst, row.p50_s / *expectation.max_p50_s);
  return worst;
}

std::string limits(const Expectation& expectation) {
  std::string text;
  if (expectation.min_busbw_gbps) text = "busbw >= " + gbps(*expectation.min_busbw_gbps);
  if (expectation.max_p50_s) {
    text += (text.empty() ? "" : " and ") + ("p50 <= " + format_seconds(*expectation.max_p50_s));
  }
  return text + " (" + expectation.where + ")";
}

std::string subject(const Expectation& expectation) {
  return expectation.collective +
         (expectation.algorithm.empty() ? "" : " " + expectation.algorithm);
}

void add_unmatched(const std::string& evidence, const std::string& threshold,
                   std::vector<collectives::Verdict>& verdicts) {
  verdicts.push_back({"expectation-unmatched", "error", "certain", evidence, threshold,
                      "the sweep measured other sizes, algorithms or another collective",
                      "sweep what the thresholds name (-b, -e, --algorithm), or mend the file"});
}

}  // namespace

void judge_expectations(const std::vector<Expectation>& expectations, const std::string& path,
                        std::span<const BenchRow> rows,
                        std::vector<collectives::Verdict>& verdicts) {
  const std::string measured = rows.empty() ? "" : rows.front().collective;
  const bool none_of_this = std::none_of(
      expectations.begin(), expectations.end(),
      [&](const Expectation& expectation) { return expectation.collective == measured; });
  if (none_of_this) {
    return add_unmatched("no expectation of " + path + " is of " + measured,
                         "one that applies to a row", verdicts);
  }
  for (const Expectation& expectation : expectations) {
    if (expectation.collective != measured) continue;
    int matched = 0;
    int missed = 0;
    const BenchRow* worst = nullptr;
    for (const BenchRow& row : rows) {
      if (!applies(expectation, row)) continue;
      ++matched;
      if (!(excess(expectation, row) > 1)) continue;
      ++missed;
      if (worst == nullptr || excess(expectation, row) > excess(expectation, *worst)) worst = &row;
    }
    if (matched == 0) {
      add_unmatched("no row is " + subject(expectation) + " of the sizes expected",
                    limits(expectation), verdicts);
    }
    if (worst == nullptr) continue;
    verdicts.push_back(
        {"below-expectation", "error", "certain",
         std::to_string(missed) + " of " + std::to_string(matched) + " rows; " + worst->collective +
             " " + worst->algorithm + " " +
             format_bytes_binary(static_cast<double>(worst->effective_bytes)) + " has busbw " +
             gbps(worst->busbw_gbps) + ", p50 " + format_seconds(worst->p50_s),
         limits(expectation), "the fabric, the hosts or the library are slower than promised",
         "repeat on quiet hosts; compare algorithms with --algorithm all"});
  }
}

}  // namespace nqd::cli
