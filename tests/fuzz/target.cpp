// A libFuzzer program: NQD_FUZZ_ENTRY names the function of entries.h.
#include <cstddef>
#include <cstdint>

#include "tests/fuzz/entries.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  nqd::fuzz::NQD_FUZZ_ENTRY({reinterpret_cast<const char*>(data), size});
  return 0;
}
