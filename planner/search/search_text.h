// A search as people read it.
#pragma once

#include <string>
#include <vector>

#include "planner/search/detail.h"
#include "planner/search/search.h"
#include "planner/search/sweep.h"

namespace nqd::planner::search {

// The ranked plans with their seconds and bytes, what binds the first, and why the others lost.
std::string search_text(const Config& config, const SearchResult& result,
                        const std::vector<Detail>& plans);

// The plans that none beats in step time, bytes and devices at once.
std::string front_text(const SearchResult& result);

// One point of a sweep: its values and the best plan, when any fits.
struct SweepPoint {
  std::vector<std::string> values;  // by axis
  Config config;
  SearchResult result;
  std::vector<Detail> plans;  // at most one
};
std::string sweep_text(const std::vector<SweepAxis>& axes, const std::vector<SweepPoint>& points);

// Why nothing fits: the rule that most candidates broke, and the nearest miss.
std::string nothing_text(const SearchResult& result);

}  // namespace nqd::planner::search
