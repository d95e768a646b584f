// What a job's NCCL log says is wrong. Each verdict quotes the line or counts the lines that it
// rests on; a log that is silent on a matter gives no verdict on it.
#pragma once

#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/bench/fabric_promise.h"
#include "collectives/nccl/log.h"

namespace nqd::collectives {

// True when the log shows ranks of several nodes in one communicator.
bool crosses_nodes(const NcclLog& log, const FabricPromise& promise);

// "socket-fallback", "gpudirect-off", "one-rail", "wrong-interface", "p2p-disabled",
// "duplicate-gpu", "transport-error", "init-hang", "singletons", "env-override".
// `ran` says that collectives are known to have run to their end, so that a missing
// "Init COMPLETE" is a missing line and not a hang.
std::vector<Verdict> judge_nccl_log(const NcclLog& log, const FabricPromise& promise, bool ran);

}  // namespace nqd::collectives
