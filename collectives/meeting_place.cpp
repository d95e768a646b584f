#include "collectives/meeting_place.h"

#include <fcntl.h>
#include <sys/file.h>
#include <sys/stat.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <fstream>
#include <system_error>

#include "base/error.h"
#include "base/file.h"
#include "collectives/file_meeting.h"

namespace nqd::collectives {
namespace {

[[noreturn]] void throw_foreign(const std::filesystem::path& path, const std::string& what) {
  throw Error(ExitCode::kUsage, "NQD3007",
              path.string() + " is " + what + ", which a rendezvous does not replace",
              "use file:PATH with a path that does not exist yet");
}

std::filesystem::path lock_path(const FileMeeting& meeting) {
  const std::string rank = meeting.rank == 0 ? "" : "." + std::to_string(meeting.rank);
  return meeting.path.string() + rank + ".lock";
}

// Whether `descriptor` is still the file of that name: its last holder may have removed it.
bool is_at(int descriptor, const std::filesystem::path& path) {
  struct stat opened {};
  struct stat named {};
  return ::fstat(descriptor, &opened) == 0 && ::stat(path.c_str(), &named) == 0 &&
         opened.st_dev == named.st_dev && opened.st_ino == named.st_ino;
}

// A short text goes to a file in one piece; a full disk costs the mark, not the meeting.
void append(int descriptor, std::string_view text) {
  [[maybe_unused]] const auto written = ::write(descriptor, text.data(), text.size());
}

// A lock is empty for a moment when it has just been made.
void check(const std::filesystem::path& path, bool may_be_empty) {
  std::error_code error;
  const auto status = std::filesystem::status(path, error);
  if (std::filesystem::is_directory(status)) throw_foreign(path, "a folder");
  if (!std::filesystem::exists(status)) return;
  if (!std::filesystem::is_regular_file(status)) throw_foreign(path, "no regular file");
  std::ifstream file(path, std::ios::binary);
  // Gone since it was seen.
  if (!file && !std::filesystem::exists(path, error)) return;
  std::array<char, kMeetingKind.size()> kind{};
  file.read(kind.data(), kind.size());
  if (std::string_view(kind.data(), kind.size()) == kMeetingKind) return;
  if (!may_be_empty || file.gcount() > 0) throw_foreign(path, "a file of something else");
}

}  // namespace

void check_meeting_file(const std::filesystem::path& path) { check(path, false); }

MeetingLock::MeetingLock(const FileMeeting& meeting)
    : path_(lock_path(meeting)), claim_(sha256_hex(meeting.run) + "\n") {
  check_meeting_file(meeting.path);
  for (;;) {
    open();
    const bool held = ::flock(descriptor_, LOCK_EX | LOCK_NB) != 0 && errno == EWOULDBLOCK;
    if (is_at(descriptor_, path_)) {
      if (!held) break;
      append(descriptor_, claim_);
      ::close(descriptor_);
      throw Error(ExitCode::kEnvironment, "NQD3007",
                  "another process is rank " + std::to_string(meeting.rank) + " of a meeting at " +
                      meeting.path.string(),
                  "give every job a rendezvous of its own, and every process a rank of its own");
    }
    ::close(descriptor_);
  }
  append(descriptor_, std::string(kMeetingKind) + " lock\n");
  start_ = ::lseek(descriptor_, 0, SEEK_END);
}

void MeetingLock::open() {
  check(path_, true);
  descriptor_ = ::open(path_.c_str(), O_RDWR | O_CREAT | O_APPEND | O_CLOEXEC, 0600);
  if (descriptor_ >= 0) return;
  throw Error(ExitCode::kUsage, "NQD2002",
              "cannot write " + path_.string() + ": " + std::strerror(errno),
              "give a rendezvous in a folder that exists and can be written");
}

MeetingLock::~MeetingLock() {
  std::error_code ignored;
  std::filesystem::remove(path_, ignored);
  ::close(descriptor_);
}

bool MeetingLock::contested() const {
  std::array<char, 4096> text{};
  const ssize_t got = ::pread(descriptor_, text.data(), text.size(), start_);
  if (got <= 0) return false;
  return std::string_view(text.data(), static_cast<std::size_t>(got)).find(claim_) !=
         std::string_view::npos;
}

}  // namespace nqd::collectives
