// How fast saves are written, read back and loaded.
#pragma once

#include <cstdint>
#include <string>

namespace nqd::testing {

struct DiskRate {
  std::uint64_t bytes = 0;  // of all files
  double save_s = 0;        // from the first file made to all synced, their folder's names too
  double read_back_s = 0;
  double cpu_s = 0;  // of all threads, until all was read back: what training beside it misses
};

// Writes a generation of `files` files as so many ranks would, in all about `bytes`, into a folder
// that must not exist, and leaves it there. Throws Error.
DiskRate measure_save(const std::string& folder, std::uint64_t bytes, int files);

// Seconds that its files take into memory, with a reader for each, from the disk where the system
// allows to ask for that. Throws Error.
double measure_load(const std::string& folder);

}  // namespace nqd::testing
