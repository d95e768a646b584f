// The end of a process whose peers may be gone.
#include <cstdio>
#include <cstdlib>
#include <iostream>

#include "collectives/liveness/watchdog.h"
#include "collectives/world.h"

namespace nqd::collectives {

void abort_process(int code) {
  // Another thread may hold the stream for ever (this also ends processes that hang): then what it
  // buffered is lost, not the exit.
  if (ftrylockfile(stdout) == 0) {
    std::cout.flush();
    fflush_unlocked(stdout);
    funlockfile(stdout);
  }
  Watchdog::leave_together();
  std::_Exit(code);
}

}  // namespace nqd::collectives
