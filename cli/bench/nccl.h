// `nqd bench COLLECTIVE --backend nccl`.
#pragma once

#include <functional>
#include <memory>

#include "cli/bench/options.h"
#include "collectives/nccl/log_capture.h"
#include "reports/device_json.h"

namespace nqd::cli {

// Before ranks start: makes NCCL write its log. Throws Error (kEnvironment, NQD3060 or NQD3064)
// when this build or this machine has no CUDA device or no NCCL; Error (kUsage, NQD2104) for
// options that NCCL does not have.
std::unique_ptr<collectives::NcclLogCapture> prepare_nccl(const BenchFlags& flags,
                                                          const collectives::BenchOptions& bench);

struct NcclRun {
  collectives::BenchResult result;
  reports::DeviceEvidence evidence;
};

// Collective over `world`, of any backend of the host. Rows out of place, then in place, where the
// collective has both and --in-place is not given. The verdicts are those on the rows, the
// placement and NCCL's log. `table`: prints the rows in the lines of nccl-tests.
NcclRun run_nccl(collectives::Communicator& world, const BenchFlags& flags,
                 const collectives::BenchOptions& bench, const collectives::NcclLogCapture& capture,
                 bool table, const std::function<void(const collectives::BenchRow&)>& on_row);

}  // namespace nqd::cli
