// `nqd validate-model --json`; schemas/validate-model.schema.json describes it.
#pragma once

#include <span>
#include <string>

#include "planner/import/published/shipped.h"
#include "planner/validation/evaluate.h"

namespace nqd::reports {

// One entry of "tables" a file and quantity, every row in "rows", what was left out in "skipped".
// `left_out` as planner::render_scores takes it.
std::string validate_json(std::span<const planner::TableReport> reports,
                          std::span<const planner::LeftOut> left_out);
// configs/published/leave-one-out.json.
std::string left_out_json(const std::string& constants, std::span<const planner::LeftOut> left_out);

}  // namespace nqd::reports
