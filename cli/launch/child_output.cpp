#include "cli/launch/child_output.h"

#include <fcntl.h>
#include <spawn.h>
#include <sys/wait.h>
#include <unistd.h>

#include <cerrno>
#include <chrono>
#include <csignal>
#include <cstring>
#include <thread>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "cli/stop_signals.h"

extern char** environ;

namespace nqd::cli {
namespace {

std::vector<char*> pointers(std::vector<std::string>& words) {
  std::vector<char*> all;
  for (std::string& word : words) all.push_back(word.data());
  all.push_back(nullptr);
  return all;
}

// A signal to this process alone ends the child too.
int wait_for(pid_t child) {
  constexpr auto kPause = std::chrono::milliseconds(5);
  bool told = false;
  int status = 0;
  while (true) {
    const pid_t ended = ::waitpid(child, &status, WNOHANG);
    if (ended == child || (ended < 0 && errno != EINTR)) break;
    if (stop_signal_came() && !std::exchange(told, true)) ::kill(child, SIGTERM);
    std::this_thread::sleep_for(kPause);
  }
  return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

}  // namespace

int run_to_file(std::vector<std::string> words, const std::filesystem::path& output,
                std::vector<std::string> variables) {
  for (char** entry = environ; *entry != nullptr; ++entry) variables.emplace_back(*entry);
  posix_spawn_file_actions_t actions;
  posix_spawn_file_actions_init(&actions);
  posix_spawn_file_actions_addopen(&actions, STDOUT_FILENO, output.c_str(),
                                   O_WRONLY | O_CREAT | O_TRUNC, 0644);
  posix_spawn_file_actions_adddup2(&actions, STDOUT_FILENO, STDERR_FILENO);
  pid_t child = 0;
  const int failed = ::posix_spawnp(&child, words.front().c_str(), &actions, nullptr,
                                    pointers(words).data(), pointers(variables).data());
  posix_spawn_file_actions_destroy(&actions);
  if (failed != 0) {
    throw Error(ExitCode::kEnvironment, "NQD3008",
                words.front() + " could not be started: " + std::strerror(failed),
                "install Open MPI or MPICH, or pass --launcher threads");
  }
  return wait_for(child);
}

std::string last_lines(const std::filesystem::path& output) {
  constexpr std::size_t kMost = 400;
  const std::string text = read_file(output);
  return text.size() <= kMost ? text : text.substr(text.size() - kMost);
}

}  // namespace nqd::cli
