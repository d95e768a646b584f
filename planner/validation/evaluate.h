// Predictions of published rows, and what they say table by table.
#pragma once

#include <optional>
#include <span>
#include <string>
#include <vector>

#include "planner/import/published/published.h"
#include "planner/validation/statistics.h"

namespace nqd::planner {

// What the planner says about the row's config: seconds or bytes; 0 when it cannot say (a rate of
// the cluster is unknown).
double predict(const PublishedRow& row);
// Seconds of a step, or 0.
double predict_step(const Config& config);

// What the null model scales by one constant a table, and nothing else:
//   step time     FLOPs of the step, recomputation included, ÷ (devices · dense peak in its
//   precision) peak memory   bytes of weights, gradients and optimizer, evenly over the devices
//   that share them collective    bytes that a ring sends, 2(n−1)/n · payload for all_reduce
double null_basis(const PublishedRow& row);

struct JudgedRow {
  const PublishedRow* row = nullptr;
  double predicted = 0;
  double error = 0;       // relative_error
  double null_error = 0;  // of the null model
};

// All rows of one quantity in one table.
struct TableScore {
  std::string file;
  Quantity quantity = Quantity::kStepTime;
  std::vector<JudgedRow> rows;  // in the table's order
  ErrorSummary errors;
  ErrorSummary null_errors;
  ErrorSummary unsuspected;  // errors of the rows that are not suspect
  std::int64_t suspects = 0;
  Ranking ranking;  // step times alone
};

struct SkippedRow {
  std::string id;
  std::string reason;
};
struct TableReport {
  std::string file;
  std::vector<TableScore> scores;  // one a quantity that occurs, in enum order
  std::vector<SkippedRow> skipped;
};
// The table must outlive the report, which points to its rows.
TableReport judge(const PublishedTable& table);

}  // namespace nqd::planner
