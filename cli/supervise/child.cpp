#include "cli/supervise/child.h"

#include <spawn.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstring>
#include <fstream>

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

std::optional<int> Child::ended() {
  int status = 0;
  if (code_ || ::waitpid(pid_, &status, WNOHANG) != pid_) return code_;
  code_ = WIFSIGNALED(status) ? 128 + WTERMSIG(status) : WEXITSTATUS(status);
  kill_orphans();
  return code_;
}

}  // namespace nqd::cli
