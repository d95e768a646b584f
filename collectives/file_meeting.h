// How processes that share nothing but a folder and a launcher's word meet.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <span>
#include <string>
#include <vector>

namespace nqd::collectives {

// The launcher's word for a world that meets by files.
struct FileMeeting {
  std::filesystem::path path;  // in a folder that all ranks see; PATH.RANK are used too
  std::string run;             // equal on all ranks; another for each meeting of one job
  int rank = 0;
  int ranks = 1;
  std::string host;    // of this rank
  int local_rank = 0;  // its place on its host
  std::chrono::milliseconds deadline{60'000};
};

// Collective. Every rank's `mine` (equal lengths), one behind the other in rank order. Each rank
// leaves its part beside a random number in PATH.RANK; rank 0 answers in PATH with all parts and
// all numbers. An answer that does not hold the rank's own number is of an earlier run and not
// taken, so nothing has to be cleaned up before; what was used is removed. Throws TimeoutError that
// names the ranks that did not come, and as write_file for a folder that cannot be written.
std::vector<std::byte> meet_by_files(const FileMeeting& meeting, std::span<const std::byte> mine);

}  // namespace nqd::collectives
