// The config under construction, with where each value came from.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "planner/config/assignment.h"
#include "planner/config/config.h"
#include "planner/config/field.h"

namespace nqd::planner {

struct Resolution {
  Draft draft;
  std::map<std::string, std::string, std::less<>> origins;  // path -> origin; absent = default
  Findings findings;

  bool given(std::string_view path) const { return origins.find(path) != origins.end(); }
  bool reliable(std::string_view path) const { return findings.reliable(path); }
  void set(std::string_view path, const Value& value, std::string origin);
};

// Fills values that follow from others when they were not given ("4 · hidden", dp from the
// devices): origin "derived: RULE". A value derived from an unreliable one is unreliable.
void derive_values(Resolution& resolution);

// Reports keys that the model's family needs and lacks (NQD1014, NQD1020) and keys that do not
// apply to it (NQD1021, among `given`: the file's and the flags').
void check_model_keys(Resolution& resolution, const std::vector<Assignment>& given,
                      const Source& file, Place model_key);

// "key=value" flags as assignments; findings NQD1015, NQD1016 and those of parse_yaml. `flags` must
// outlive the assignments: every place in them is "--set".
std::vector<Assignment> read_overrides(const std::vector<std::string>& overrides,
                                       const Source& flags, Findings& findings);

// Every value that applies, in table order.
std::vector<ResolvedValue> resolved_values(Resolution& resolution);
// The same as a config file that loads to the same record: what identifies a config.
std::string canonical_yaml(const std::vector<ResolvedValue>& values);

}  // namespace nqd::planner
