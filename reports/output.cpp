#include "reports/output.h"

#include <system_error>

#include "base/error.h"

namespace nqd::reports {

void check_output(const std::filesystem::path& output,
                  const std::vector<std::filesystem::path>& inputs,
                  const std::string& instead_of_dash, const std::string& flag) {
  if (output == "-") {
    throw Error(ExitCode::kUsage, "NQD2002", flag + " takes a file; - is not stdout here",
                instead_of_dash);
  }
  for (const std::filesystem::path& input : inputs) {
    std::error_code absent;
    if (!std::filesystem::equivalent(output, input, absent)) continue;
    throw Error(ExitCode::kUsage, "NQD2204",
                flag + " " + output.string() + " is the input " + input.string() +
                    ", which it would replace",
                "give " + flag + " another path");
  }
}

}  // namespace nqd::reports
