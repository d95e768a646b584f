// The tables that base/codes.h joins, a file a range of codes. Each in the order of its codes.
#pragma once

#include "base/codes.h"

namespace nqd::codes {

std::span<const CodeInfo> config_codes();  // 1000: YAML and typed values
std::span<const CodeInfo> mesh_codes();    // 1200: mesh rules; 1300: memory and advice
std::span<const CodeInfo> files_codes();   // 2000: files and data
std::span<const CodeInfo> run_codes();     // 3000: environment and launch; 4000: run-time faults

}  // namespace nqd::codes
