#include "base/codes.h"

#include <algorithm>
#include <array>

namespace nqd {
namespace {

constexpr std::array kCodes = {
    // 1000: YAML and typed values
    CodeInfo{"NQD1001", "config file cannot be read",
             "The path given does not name a readable file. Check the spelling and permissions."},
    // 1200: mesh rules
    // 1300: memory and advice
    // 2000: files and data
    CodeInfo{"NQD2001", "input file cannot be read",
             "The file is missing, a folder, or not readable by this user."},
    CodeInfo{"NQD2002", "output cannot be written",
             "nqd opens every output before it starts work, so that a long run is not lost at its "
             "end. Give a path in a folder that exists and that this user may write."},
    // 3000: environment and launch
    // 4000: run-time faults
    CodeInfo{"NQD4003", "writing a file failed",
             "The file system refused the bytes, most often because it is full. The file's earlier "
             "content, if any, is untouched: nqd writes a temporary file and renames it last."},
    CodeInfo{"NQD4004", "a system library failed", "libcrypto could not compute a digest."},
};

}  // namespace

std::span<const CodeInfo> all_codes() { return kCodes; }

const CodeInfo* find_code(std::string_view code) {
  const auto* found = std::find_if(kCodes.begin(), kCodes.end(),
                                   [&](const CodeInfo& info) { return info.code == code; });
  return found == kCodes.end() ? nullptr : found;
}

}  // namespace nqd
