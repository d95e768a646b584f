#pragma once

#include <algorithm>
#include <cstdint>

namespace nqd::engine {

// [begin, end) of a row of elements.
struct Range {
  std::int64_t begin = 0;
  std::int64_t end = 0;
  bool empty() const { return begin >= end; }
};

inline Range overlap(const Range& a, const Range& b) {
  return {std::max(a.begin, b.begin), std::min(a.end, b.end)};
}

}  // namespace nqd::engine
