// The largest resident set that this process has had.
#pragma once

#include <cstdint>

namespace nqd {

// Since the process began, or since the last successful reset (VmHWM of /proc/self/status), in
// bytes; 0 when unreadable.
std::uint64_t peak_resident_bytes();

// Forgets earlier peaks (/proc/self/clear_refs). False where the kernel does not let it.
bool reset_peak_resident();

}  // namespace nqd
