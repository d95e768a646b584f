// Judged tables as text for people and as the Markdown of docs/accuracy.md.
#pragma once

#include <optional>
#include <span>
#include <string>

#include "planner/validation/evaluate.h"
#include "planner/validation/fit.h"

namespace nqd::planner {

// One line a table and quantity beside the null model; then what was skipped and suspected.
std::string render_scores(std::span<const TableReport> reports, std::span<const LeftOut> left_out);
// Every row: predicted, measured, error.
std::string render_rows(std::span<const TableReport> reports);
// The tables of docs/accuracy.md: by table, and step times by device, precision and kind of model
// where a table has several.
std::string render_scores_markdown(std::span<const TableReport> reports,
                                   std::span<const LeftOut> left_out);
// Fitted constants as the lines of preset files, with the values before as comments.
std::string render_constants(const FitResult& result);
std::string render_left_out(std::span<const LeftOut> left_out);

}  // namespace nqd::planner
