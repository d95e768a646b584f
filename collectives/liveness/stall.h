// Ending ranks that live and come no further.
#pragma once

#include <functional>
#include <string>

#include "base/error.h"

namespace nqd::collectives {

// For a thread that is no rank. `what` is a sentence without its end: "rank 1 did not complete step
// 12 within 63 s". Where ranks are processes it becomes the fault of the world (TimeoutError,
// NQD4002, which waits_for all ranks but this one, and names no host, since none is known to be at
// fault), with the call that each rank of this host is in or was in last; ranks that do not come
// back from their own work to report it are ended by their watchdogs, as with every fault. Where
// ranks are threads of this process nothing can end them but its end: reports, calls `last_words`
// and ends the process with exit code 4.
void fail_stalled(const std::string& what, const std::function<void(const Error&)>& last_words);

}  // namespace nqd::collectives
