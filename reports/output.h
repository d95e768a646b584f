// The rule that no command overwrites the evidence that it reads: raw samples cannot be made again.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

namespace nqd::reports {

// Call before the output is opened. Throws Error (kUsage): NQD2204 when `output` is one of `inputs`
// under this or another name (link, relative path), NQD2002 with the hint `instead_of_dash` for
// "-", which would become a file of that name. `flag` names the output in the message. Inputs that
// do not exist are left to their reader.
void check_output(const std::filesystem::path& output,
                  const std::vector<std::filesystem::path>& inputs,
                  const std::string& instead_of_dash, const std::string& flag = "--output");

}  // namespace nqd::reports
