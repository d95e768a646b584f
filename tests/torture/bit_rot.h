// Flips bits of a generation on its disk and asks the reader each time.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace nqd::testing {

struct BitRotOptions {
  std::string root;  // folder of generations; the one that LATEST names is damaged, and mended
  std::int64_t flips = 0;
  std::int64_t pages = 0;  // of 4 KiB, zeroed or overwritten
  std::uint64_t seed = 0;
  double seconds = 0;  // at most
};

struct BitRotResult {
  std::int64_t flips = 0;
  std::int64_t pages = 0;
  std::vector<std::string> files;   // that were damaged
  std::vector<std::string> missed;  // damage that was not found, or not named: what and where
};

// Throws Error when the generation is not whole to begin with.
BitRotResult rot(const BitRotOptions& options);

}  // namespace nqd::testing
