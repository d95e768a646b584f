// Samples for a calibration, whoever took them.
#pragma once

#include <filesystem>

#include "reports/evidence.h"

namespace nqd::reports {

// Evidence as read_evidence gives it, or the rows of nccl-tests (text or JSON) as evidence of kind
// "bench". nccl-tests times every size out of place and in place: the first are taken where both
// are there, for one curve cannot follow both. Throws Error (kUsage): as read_evidence and the
// readers of nccl-tests do; NQD2108 for a table that does not say which collective or how many
// ranks it is of, or of one rank.
Evidence read_measurements(const std::filesystem::path& path);

}  // namespace nqd::reports
