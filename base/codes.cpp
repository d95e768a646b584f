#include "base/codes.h"

#include <algorithm>
#include <vector>

#include "base/codes/tables.h"

namespace nqd {
namespace {

std::vector<CodeInfo> joined() {
  std::vector<CodeInfo> rows;
  for (const auto table :
       {codes::config_codes(), codes::mesh_codes(), codes::files_codes(), codes::run_codes()}) {
    rows.insert(rows.end(), table.begin(), table.end());
  }
  return rows;
}

}  // namespace

std::span<const CodeInfo> all_codes() {
  static const std::vector<CodeInfo> rows = joined();
  return rows;
}

const CodeInfo* find_code(std::string_view code) {
  const std::span<const CodeInfo> rows = all_codes();
  const auto found = std::find_if(rows.begin(), rows.end(),
                                  [&](const CodeInfo& info) { return info.code == code; });
  return found == rows.end() ? nullptr : &*found;
}

}  // namespace nqd
