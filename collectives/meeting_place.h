// The files of a meeting (file_meeting.h): which may be replaced, and who may use them.
#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace nqd::collectives {

struct FileMeeting;

// What every file of a meeting begins with.
inline constexpr std::string_view kMeetingKind = "nqdmeet";

// Throws Error (kUsage, NQD3007) when there is something at `path` that no meeting has left: a
// user's file, a folder.
void check_meeting_file(const std::filesystem::path& path);

// One process at a time is rank meeting.rank at meeting.path, from the constructor to the
// destructor, which removes what it has made: PATH.lock for rank 0, PATH.RANK.lock for others. A
// process that dies gives the place up.
class MeetingLock {
 public:
  // Throws Error: as check_meeting_file; (kEnvironment, NQD3007) when another process has the
  // place; (kUsage, NQD2002) for a folder that cannot be written. On a file system without locks
  // nobody is refused.
  explicit MeetingLock(const FileMeeting& meeting);
  ~MeetingLock();
  MeetingLock(const MeetingLock&) = delete;
  MeetingLock& operator=(const MeetingLock&) = delete;

  // Whether a process of the same meeting.run was refused this place since: two jobs that nothing
  // tells apart, whose ranks may be mixed.
  bool contested() const;

 private:
  void open();

  const std::filesystem::path path_;
  const std::string claim_;
  int descriptor_ = -1;
  std::int64_t start_ = 0;  // of what was written since
};

}  // namespace nqd::collectives
