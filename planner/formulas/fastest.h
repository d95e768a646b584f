// Which of several algorithms is fastest at which size.
#pragma once

#include <cstddef>
#include <limits>
#include <vector>

namespace nqd::planner {

// Time of an algorithm: latency_s + bytes · s_per_byte.
struct CostLine {
  double latency_s = 0;
  double s_per_byte = 0;
};

struct FastestRange {
  std::size_t line = 0;  // index of the fastest
  double from_bytes = 0;
  double to_bytes = std::numeric_limits<double>::infinity();
};

// Ranges that follow one another from 0 bytes to infinity; of equal lines the first counts. Empty
// without lines.
std::vector<FastestRange> fastest_by_size(const std::vector<CostLine>& lines);

}  // namespace nqd::planner
