#include "cli/stop_signals.h"

#include <atomic>
#include <csignal>
#include <initializer_list>

#include "base/error.h"

namespace nqd::cli {
namespace {

std::atomic<int> g_signals{0};
static_assert(std::atomic<int>::is_always_lock_free);

extern "C" void note_stop_signal(int signal) {
  if (g_signals.fetch_add(1) == 0) return;
  std::signal(signal, SIG_DFL);
  std::raise(signal);
}

extern "C" void count_stop_signal(int) { g_signals.fetch_add(1); }

void watch(std::initializer_list<int> signals, void (*handler)(int)) {
  struct sigaction action {};
  action.sa_handler = handler;
  // What waits in a system call goes on: the request is looked at between steps.
  action.sa_flags = SA_RESTART;
  ::sigemptyset(&action.sa_mask);
  for (const int signal : signals) ::sigaction(signal, &action, nullptr);
}

}  // namespace

void watch_stop_signals() { watch({SIGTERM, SIGUSR1}, note_stop_signal); }
void watch_interrupts() { watch({SIGINT, SIGTERM}, note_stop_signal); }

void count_stop_signals() {
  watch({SIGTERM, SIGUSR1, SIGINT}, count_stop_signal);
  struct sigaction before {};
  ::sigaction(SIGHUP, nullptr, &before);
  if (before.sa_handler != SIG_IGN) watch({SIGHUP}, count_stop_signal);
}

bool stop_signal_came() { return g_signals.load() > 0; }
int stop_signals() { return g_signals.load(); }

void throw_if_stopped() {
  if (!stop_signal_came()) return;
  throw Error(ExitCode::kFault, "NQD4051", "stopped by a signal: nothing was written",
              "start the command again");
}

}  // namespace nqd::cli
