// Memory that neither a plan nor a ledger knows of.
#pragma once

#include <cstdint>

namespace nqd::engine {

struct UncountedMemory {
  std::uint64_t scratch_bytes = 0;   // of a device's operations, the largest so far
  std::uint64_t library_bytes = 0;   // the workspace of its library of products
  std::uint64_t pinned_bytes = 0;    // of the host, for copies to the device and back
  std::uint64_t reserved_bytes = 0;  // the most taken from the device, what ledgers count included
};

}  // namespace nqd::engine
