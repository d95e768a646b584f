#include <algorithm>
#include <cmath>
#include <string>

#include "collectives/bench/bench.h"

namespace nqd::collectives {

std::vector<std::uint64_t> sweep_sizes(const BenchOptions& options) {
  const auto refuse = [](const std::string& what, const std::string& hint) {
    throw Error(ExitCode::kUsage, "NQD2104", what, hint);
  };
  if (options.begin_bytes == 0) refuse("a sweep cannot begin at 0 bytes", "give --begin 1 or more");
  if (options.begin_bytes > options.end_bytes) {
    refuse("the sweep begins at " + std::to_string(options.begin_bytes) +
               " bytes, after its end at " + std::to_string(options.end_bytes),
           "give --begin a size that is at most --end");
  }
  if (options.step_bytes == 0 && !(options.factor > 1)) {
    refuse("a factor of " + std::to_string(options.factor) + " never reaches the end of the sweep",
           "give --factor more than 1, or --step bytes");
  }
  std::vector<std::uint64_t> sizes;
  for (std::uint64_t size = options.begin_bytes; size <= options.end_bytes;) {
    sizes.push_back(size);
    const double scaled = std::floor(static_cast<double>(size) * options.factor);
    if (options.step_bytes == 0 && scaled > static_cast<double>(options.end_bytes)) break;
    // A factor near 1 must still move on.
    size = options.step_bytes > 0 ? size + options.step_bytes
                                  : std::max(size + 1, static_cast<std::uint64_t>(scaled));
  }
  return sizes;
}

double percentile(std::vector<double> samples, double q) {
  if (samples.empty()) return 0;
  std::sort(samples.begin(), samples.end());
  const auto n = static_cast<double>(samples.size());
  const double rank = std::ceil(std::clamp(q, 0.0, 1.0) * n);
  return samples[static_cast<std::size_t>(std::max(rank, 1.0)) - 1];
}

}  // namespace nqd::collectives
