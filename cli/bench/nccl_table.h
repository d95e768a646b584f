// The table of nccl-tests (NVIDIA/nccl-tests v2.13 to v2.19, src/common.cu): the same lines and
// columns, so that outputs can be laid side by side and read by the same tools.
#pragma once

#include <span>
#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/nccl/topology.h"

namespace nqd::cli {

// The whole table, newline and all: the devices, one line a size, out of place and in place (N/A
// for a half that was not measured), and the footer. Times are means, as nccl-tests prints them,
// and bandwidths those of the means.
std::string nccl_table(const collectives::BenchOptions& options, const std::string& nccl_version,
                       std::span<const collectives::DeviceRecord> devices,
                       const std::vector<collectives::BenchRow>& rows);

}  // namespace nqd::cli
