// How fast saves are written, read back and loaded.
#pragma once

#include <cstdint>
#include <string>

namespace nqd::testing {

struct DiskRate {
  std::uint64_t bytes = 0;  // of all files
  double save_s = 0;        // from the first file made to all synced, their folder's names too
  double read_back_s = 0;
  double cpu_s = 0;   // of all threads, until all was read back: what training beside it misses
  double load_s = 0;  // every tensor into memory, from the disk where the system allows to ask
};

// Writes a generation of `files` files as so many ranks would, in all about `bytes`, into a folder
// that must not exist; loads it with as many readers; leaves it there. Throws Error.
DiskRate measure_rate(const std::string& folder, std::uint64_t bytes, int files);

}  // namespace nqd::testing
