// SIGTERM and SIGUSR1 as a request: save and stop. A second one ends the process at once.
#pragma once

namespace nqd::cli {

// From now on, of this process.
void watch_stop_signals();
// The same for SIGINT and SIGTERM, of a command that has nothing to save.
void watch_interrupts();
// The same for SIGTERM, SIGUSR1, SIGINT and, unless it is ignored (nohup), SIGHUP, of a command
// that ends what it started itself: no number of them ends the process.
void count_stop_signals();
bool stop_signal_came();
int stop_signals();
// Throws Error (kFault, NQD4051) when one came.
void throw_if_stopped();

}  // namespace nqd::cli
