// The global operator new of this executable and the libraries that it loads, which counts.
#pragma once

#include <cstddef>
#include <cstdint>

namespace nqd::testing {

// Of all threads.
struct Allocations {
  std::int64_t calls = 0;    // since the start
  std::int64_t held = 0;     // bytes that are not freed
  std::int64_t largest = 0;  // bytes of a call, since the last forget_largest
};
Allocations allocations();
void forget_largest();

}  // namespace nqd::testing
