// A command as a child with a process group of its own. What it leaves behind when it ends is
// killed.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <optional>
#include <string>
#include <vector>

namespace nqd::cli {

class Child {
 public:
  // Starts it. Throws Error (kUsage, NQD2001) when the program cannot be run.
  explicit Child(const std::vector<std::string>& command);
  // Kills the group if it still runs.
  ~Child();
  Child(const Child&) = delete;
  Child& operator=(const Child&) = delete;

  // To all processes of the group.
  void signal(int number) const;
  // SIGKILL to the group and to what the command left behind.
  void kill_all() const;
  // SIGUSR1 to those processes of the group that it would not end (a launcher passes it on to the
  // ranks; a shell around the launcher does not know it). False where there is none yet. From now
  // on the command may end before what it started: that has kOrphansS to come to its end.
  bool request_stop();
  // Its exit code once it has ended, 128 + the signal that ended it.
  std::optional<int> ended();

 private:
  using Clock = std::chrono::steady_clock;
  static constexpr std::chrono::seconds kOrphansS{60};

  pid_t pid_ = -1;
  bool stop_requested_ = false;
  std::optional<int> leader_code_;
  Clock::time_point leader_ended_;
  std::optional<int> code_;
};

}  // namespace nqd::cli
