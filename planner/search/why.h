// Why a plan has its place, or none.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "planner/search/detail.h"
#include "planner/search/fixed.h"
#include "planner/search/search.h"

namespace nqd::planner::search {

// A plan that fits and differs from what was asked in one key.
struct Change {
  std::string key;    // "tp"
  std::string value;  // "8"
  Score score;
};

struct Why {
  std::string asked;  // "tp=8,pp=4"
  // The best plan with what was asked, its place among all that fit (1 = best), and the best of
  // all.
  std::optional<Detail> plan;
  std::int64_t rank = 0;
  std::int64_t fitting = 0;
  std::optional<Detail> best;
  // Where no such plan fits: the rule that most of them break (or the limit, when any obeys the
  // rules), in its words and arithmetic, and the nearest plan that is over the limit.
  std::optional<Rule> rule;
  std::string reason;
  std::optional<Score> nearest;
  double limit_bytes = 0;
  // Each key that, changed alone, gives a plan that fits: with the nearest value.
  std::vector<Change> changes;
};

// `options` are those of the search whose plans are asked about; its fixed axes hold too.
Why explain_plan(const Config& config, const SearchOptions& options, const Fixed& asked);

std::string why_text(const Why& why);

}  // namespace nqd::planner::search
