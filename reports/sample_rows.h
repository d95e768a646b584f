// The rows of bench evidence that a calibration uses.
#pragma once

#include <string>
#include <vector>

#include "reports/evidence.h"

namespace nqd::reports {

struct SampleRow {
  const collectives::BenchRow* row = nullptr;  // inside the evidence
  std::string how;                             // in which way it was measured
  bool inside_node = true;                     // all ranks on one host
};

// "all_reduce ring on 2 ranks".
std::string describe_curve(const std::string& collective, const std::string& algorithm, int ranks);

// Every verified row with a time and a payload; the others are named in `skipped`.
std::vector<SampleRow> sample_rows(const std::vector<Evidence>& evidence,
                                   std::vector<std::string>& skipped);

}  // namespace nqd::reports
