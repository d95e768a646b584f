#include "planner/formulas/fastest.h"

#include <tuple>
#include <utility>

namespace nqd::planner {
namespace {

// Where a line that grows more slowly than `now` overtakes it.
double meeting(const CostLine& now, const CostLine& slower_growing) {
  return (slower_growing.latency_s - now.latency_s) / (now.s_per_byte - slower_growing.s_per_byte);
}

}  // namespace

std::vector<FastestRange> fastest_by_size(const std::vector<CostLine>& lines) {
  if (lines.empty()) return {};
  std::size_t now = 0;
  for (std::size_t i = 1; i < lines.size(); ++i) {
    if (std::tie(lines[i].latency_s, lines[i].s_per_byte) <
        std::tie(lines[now].latency_s, lines[now].s_per_byte)) {
      now = i;
    }
  }
  std::vector<FastestRange> ranges = {{now}};
  while (true) {
    std::size_t next = now;
    for (std::size_t i = 0; i < lines.size(); ++i) {
      if (lines[i].s_per_byte >= lines[now].s_per_byte) continue;
      // Of several that overtake at one size, the one that grows least goes on.
      if (next == now || std::pair(meeting(lines[now], lines[i]), lines[i].s_per_byte) <
                             std::pair(meeting(lines[now], lines[next]), lines[next].s_per_byte)) {
        next = i;
      }
    }
    if (next == now) return ranges;
    ranges.back().to_bytes = meeting(lines[now], lines[next]);
    ranges.push_back({next, ranges.back().to_bytes});
    now = next;
  }
}

}  // namespace nqd::planner
