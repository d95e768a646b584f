#include "base/peak_resident.h"

#include <fstream>
#include <string>

namespace nqd {

std::uint64_t peak_resident_bytes() {
  std::ifstream status("/proc/self/status");
  std::string word;
  std::uint64_t kib = 0;
  while (status >> word) {
    if (word == "VmHWM:" && status >> kib) return kib * 1024;
  }
  return 0;
}

bool reset_peak_resident() {
  std::ofstream file("/proc/self/clear_refs");
  file << "5" << std::flush;
  return file.good();
}

}  // namespace nqd
