// The constants that bring predicted step times nearest to the published ones.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "planner/import/published/published.h"
#include "planner/import/published/shipped.h"
#include "planner/validation/constants.h"

namespace nqd::planner {

struct FitOptions {
  std::vector<std::string> free;  // patterns of find_constants; empty = fitted_constants()
  unsigned threads = 0;           // 0 = all
  int max_iterations = 60;
};

struct FitResult {
  std::vector<Constant> constants;  // with their fitted values
  std::vector<double> before;       // values of the presets
  double first_cost = 0;            // of the loss, at the presets' values
  double cost = 0;
  int iterations = 0;
  std::vector<LeftOut> tables;  // errors under the fitted constants
};

// Least soft-L1 loss of ln(predicted/measured), linear beyond 0.05. Every table weighs the same
// whatever its number of rows; rows that are suspect or say why they are not fitted, and other
// quantities than step time, weigh nothing.
// Starts from the presets' values. Throws Error (kUsage, NQD2062) for a pattern that names nothing.
FitResult fit(std::span<const PublishedTable* const> tables, const FitOptions& options = {});

// One fit a table with step times. A constant that no other table informs (its preset occurs in
// none of them) falls back to the default of its record: nothing of the table left out remains.
std::vector<LeftOut> leave_one_table_out(std::span<const PublishedTable* const> tables,
                                         const FitOptions& options = {});

// SHA-256 of the values of all constants that published rows use: results that a change of any of
// them makes stale carry it.
std::string constants_digest(std::span<const PublishedTable* const> tables);

}  // namespace nqd::planner
