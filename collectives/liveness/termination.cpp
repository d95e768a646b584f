#include "collectives/liveness/termination.h"

#include <signal.h>
#include <unistd.h>

#include <atomic>
#include <cerrno>
#include <cstdint>

namespace nqd::collectives {
namespace {

// Written by a signal handler, hence global and lock-free.
std::atomic<int> g_wake_descriptor{-1};
std::atomic<bool> g_arrived{false};

void on_terminate(int) {
  const int saved = errno;
  g_arrived = true;
  const std::uint64_t one = 1;
  // A full eventfd is readable already, which is all that is wanted.
  [[maybe_unused]] const auto written = ::write(g_wake_descriptor, &one, sizeof one);
  errno = saved;
}

}  // namespace

TerminationSignal::TerminationSignal(int wake_descriptor) {
  struct sigaction current {};
  ::sigaction(SIGTERM, nullptr, &current);
  if (current.sa_handler != SIG_DFL) return;
  g_wake_descriptor = wake_descriptor;
  g_arrived = false;
  struct sigaction action {};
  action.sa_handler = on_terminate;
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  installed_ = ::sigaction(SIGTERM, &action, nullptr) == 0;
}

TerminationSignal::~TerminationSignal() {
  struct sigaction current {};
  ::sigaction(SIGTERM, nullptr, &current);
  if (installed_ && current.sa_handler == on_terminate) ::signal(SIGTERM, SIG_DFL);
}

bool TerminationSignal::arrived() { return g_arrived; }

void TerminationSignal::deliver() {
  ::signal(SIGTERM, SIG_DFL);
  ::kill(::getpid(), SIGTERM);
}

}  // namespace nqd::collectives
