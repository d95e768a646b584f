#include "cli/supervise/child.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <fstream>
#include <string>

#include "base/error.h"

namespace nqd::cli {
namespace {

// Processes that the command left behind, in whatever group: this process is their reaper. They
// would hold the run's folder.
void kill_orphans() {
  while (true) {
    std::ifstream children("/proc/thread-self/children");
    bool any = false;
    for (pid_t pid = 0; children >> pid; any = true) {
      ::kill(pid, SIGKILL);
      ::waitpid(pid, nullptr, 0);
    }
    if (!any) return;
  }
}

// Without those that have ended.
bool has_orphans() {
  while (::waitpid(-1, nullptr, WNOHANG) > 0) {
  }
  std::ifstream children("/proc/thread-self/children");
  pid_t pid = 0;
  return static_cast<bool>(children >> pid);
}

// The processes of this machine.
std::vector<pid_t> all_processes() {
  std::vector<pid_t> found;
  std::error_code error;
  for (const auto& entry : std::filesystem::directory_iterator("/proc", error)) {
    const pid_t pid = std::atoi(entry.path().filename().c_str());
    if (pid > 0) found.push_back(pid);
  }
  return found;
}

// Whether it has a handler for the signal, blocks or ignores it.
bool outlives(pid_t pid, int signal) {
  std::ifstream status("/proc/" + std::to_string(pid) + "/status");
  const std::uint64_t bit = std::uint64_t{1} << (signal - 1);
  for (std::string word; status >> word;) {
    if (word != "SigBlk:" && word != "SigIgn:" && word != "SigCgt:") continue;
    std::uint64_t mask = 0;
    if (status >> std::hex >> mask && (mask & bit) != 0) return true;
  }
  return false;
}

}  // namespace

Child::Child(const std::vector<std::string>& command) {
  ::prctl(PR_SET_CHILD_SUBREAPER, 1);
  std::vector<char*> words;
  for (const std::string& word : command) words.push_back(const_cast<char*>(word.c_str()));
  words.push_back(nullptr);
  posix_spawnattr_t attributes;
  ::posix_spawnattr_init(&attributes);
  ::posix_spawnattr_setflags(&attributes, POSIX_SPAWN_SETPGROUP);
  ::posix_spawnattr_setpgroup(&attributes, 0);
  const int error =
      ::posix_spawnp(&pid_, words.front(), nullptr, &attributes, words.data(), environ);
  ::posix_spawnattr_destroy(&attributes);
  if (error == 0) return;
  pid_ = -1;
  throw Error(ExitCode::kUsage, "NQD2001",
              "cannot run " + command.front() + ": " + std::strerror(error),
              "give the command that starts the run behind --, as `-- mpirun -n 4 nqd train ...`");
}

Child::~Child() {
  if (pid_ < 0 || code_) return;
  signal(SIGKILL);
  ::waitpid(pid_, nullptr, 0);
  kill_orphans();
}

void Child::signal(int number) const {
  if (!code_) ::kill(-pid_, number);
}

void Child::kill_all() const {
  signal(SIGKILL);
  if (leader_code_) kill_orphans();
}

bool Child::request_stop() {
  for (const pid_t pid : all_processes()) {
    if (::getpgid(pid) != pid_ || !outlives(pid, SIGUSR1)) continue;
    stop_requested_ = ::kill(pid, SIGUSR1) == 0 || stop_requested_;
  }
  return stop_requested_;
}

std::optional<int> Child::ended() {
  if (code_) return code_;
  if (!leader_code_) {
    int status = 0;
    if (::waitpid(pid_, &status, WNOHANG) != pid_) return std::nullopt;
    leader_code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
    leader_ended_ = Clock::now();
  }
  // What was told to save and stop may still be at it.
  const bool waits = stop_requested_ && Clock::now() - leader_ended_ < kOrphansS;
  if (waits && has_orphans()) return std::nullopt;
  code_ = leader_code_;
  kill_orphans();
  return code_;
}

}  // namespace nqd::cli
