// `search --json`; schemas/search.schema.json is the contract.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "planner/search/search.h"
#include "planner/search/search_text.h"
#include "planner/search/sweep.h"
#include "planner/search/why.h"

namespace nqd::reports {

std::string search_json(const planner::Config& config, const planner::search::SearchResult& result,
                        const std::vector<planner::search::Detail>& plans,
                        const std::optional<planner::search::Why>& why);

std::string sweep_json(const planner::Config& config,
                       const std::vector<planner::search::SweepAxis>& axes,
                       const std::vector<planner::search::SweepPoint>& points);

}  // namespace nqd::reports
