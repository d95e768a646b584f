// What a condition of a shell script is worth before the script runs.
#pragma once

#include <string_view>
#include <vector>

#include "planner/import/shell.h"

namespace nqd::planner {

enum class Answer { kNo, kYes, kUnknown };
Answer both(Answer a, Answer b);
Answer either(Answer a, Answer b);

// `[ a = b ]`, `[[ ! -n $x ]]`, `test 1 -lt 2`; unknown for any other command. A variable that the
// script never sets is an empty text.
Answer evaluate(const std::vector<ShellWord>& command);

// Text that only the running shell could replace.
bool is_unknown(std::string_view text);

}  // namespace nqd::planner
