// SIGTERM and SIGUSR1 as a request: save and stop. A second one ends the process at once.
#pragma once

namespace nqd::cli {

// From now on, of this process.
void watch_stop_signals();
bool stop_signal_came();

}  // namespace nqd::cli
