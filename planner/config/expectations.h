// What a fabric must reach, as `nqd bench --expect FILE` reads it: YAML, or JSON, which is YAML.
//
//   expect:
//     - collective: all_reduce    # required
//       algorithm: direct         # optional: rows of every algorithm
//       min_bytes: 1M             # optional: sizes from here …
//       max_bytes: 64M            # … to here
//       min_busbw_gbps: 3.5       # at least one of these two
//       max_p50_s: 0.02
#pragma once

#include <cstdint>
#include <limits>
#include <optional>
#include <string>
#include <vector>

namespace nqd::planner {

struct Expectation {
  std::string collective;
  std::string algorithm;  // empty: any
  std::uint64_t min_bytes = 0;
  std::uint64_t max_bytes = std::numeric_limits<std::uint64_t>::max();
  std::optional<double> min_busbw_gbps;
  std::optional<double> max_p50_s;
  std::string where;  // "file:line:column" of the entry
};

// At least one. Throws Error (kUsage, NQD2109) that names file, line and column of the first thing
// that is wrong.
std::vector<Expectation> read_expectations(const std::string& path);

}  // namespace nqd::planner
