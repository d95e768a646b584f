// Every error and warning code with its explanation: the text of `nqd explain NQD1203`.
// Ranges: 1000 YAML and typed values, 1200 mesh rules, 1300 memory and advice, 2000 files and data,
// 3000 environment and launch, 4000 run-time faults.
#pragma once

#include <span>
#include <string_view>

namespace nqd {

struct CodeInfo {
  std::string_view code;
  std::string_view title;
  std::string_view explanation;  // why it matters, and how to mend it
};

std::span<const CodeInfo> all_codes();
// Null when the code is unknown.
const CodeInfo* find_code(std::string_view code);

}  // namespace nqd
