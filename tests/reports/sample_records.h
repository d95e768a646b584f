// Records with every field set to a value of its own, so that a field that is lost or swapped on
// the way through JSON shows.
#pragma once

#include "reports/evidence.h"

namespace nqd::reports::testing {

Envelope sample_envelope(const std::string& kind);
collectives::BenchResult sample_bench();
engine::TrainResult sample_train();
planner::Plan sample_plan();
planner::Calibration sample_calibration();
std::vector<MachineCheck> sample_checks();

// Writes `text` under the build folder's reports test folder and returns the path.
std::filesystem::path write_sample(const std::string& name, const std::string& text);

}  // namespace nqd::reports::testing
