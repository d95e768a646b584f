// How processes that share nothing but a folder and a launcher's word meet.
#pragma once

#include <chrono>
#include <cstddef>
#include <filesystem>
#include <functional>
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
  std::function<void()> check_stop{};  // called while waiting; what it throws ends the meeting
};

// Collective. Every rank's `mine` (equal lengths), one behind the other in rank order. Each rank
// leaves its part beside a random number in PATH.RANK; rank 0 answers in PATH with all parts and
// all numbers. An answer that does not hold the rank's own number is of an earlier run and not
// taken, so nothing has to be cleaned up before. What was used is removed, after a failure too.
//
// What a rank other than 0 learns of a third one may be what an earlier run left at that rank's
// place, where both had the same `run`: only rank 0's view is final. Whoever calls holds a
// MeetingLock (meeting_place.h), which keeps other processes of the same rank away.
//
// Throws Error: (kFault, NQD4002) that names the ranks that did not come; (kUsage, NQD3007) where
// one of the names is taken by something that no meeting has left; as write_file for a folder that
// cannot be written; what check_stop throws.
std::vector<std::byte> meet_by_files(const FileMeeting& meeting, std::span<const std::byte> mine);

}  // namespace nqd::collectives
