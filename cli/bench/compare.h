// `nqd bench --compare OLD.json`: the sweep beside an earlier one.
#pragma once

#include <string>
#include <vector>

#include "collectives/bench/compare.h"

namespace nqd::cli {

// The rows of a bench document. Throws Error (kUsage, NQD2104) for evidence of another kind, and as
// reports::read_evidence.
std::vector<collectives::BenchRow> read_old_rows(const std::string& path);

// Adds the verdict "regression" (error) to the result when a row got slower beyond `tolerance`, or
// "not-compared" (warning) when the old document has no row like any of these.
void judge_changes(const collectives::Comparison& comparison, const std::string& path,
                   double tolerance, std::vector<collectives::Verdict>& verdicts);

// One comment line a row, for the table's end.
void print_changes(const collectives::Comparison& comparison);

}  // namespace nqd::cli
