#include "planner/text.h"

#include <array>
#include <cstdio>

namespace nqd::planner {

std::string percent(double fraction) {
  std::array<char, 32> buffer{};
  std::snprintf(buffer.data(), buffer.size(), "%.1f %%", 100 * fraction);
  return buffer.data();
}

}  // namespace nqd::planner
