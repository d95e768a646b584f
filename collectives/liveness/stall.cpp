#include "collectives/liveness/stall.h"

#include <mutex>

#include "base/log.h"
#include "collectives/communicator.h"
#include "collectives/liveness/watchdog.h"
#include "collectives/world.h"

namespace nqd::collectives {

void fail_stalled(const std::string& what, const std::function<void(const Error&)>& last_words) {
  if (Watchdog::fail_stalled(what)) return;
  // One report, though every rank may have come no further.
  static std::mutex only_first;
  only_first.lock();
  const TimeoutError error({}, "", what + "; the ranks are threads of this process");
  log::error("[" + error.code() + "]: " + error.what());
  if (last_words) last_words(error);
  abort_process(static_cast<int>(ExitCode::kFault));
}

}  // namespace nqd::collectives
