#include "cli/stop_signals.h"

#include <atomic>
#include <csignal>

namespace nqd::cli {
namespace {

std::atomic<int> g_signals{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_stop_signal(int signal) {
  if (g_signals.fetch_add(1) == 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

}  // namespace

void watch_stop_signals() {
  struct sigaction action {};
  action.sa_handler = note_stop_signal;
  // What waits in a system call goes on: the request is looked at between steps.
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : {SIGTERM, SIGUSR1}) ::sigaction(signal, &action, nullptr);
}

bool stop_signal_came() { return g_signals.load() > 0; }

}  // namespace nqd::cli
