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
  // Payloads above this are known to move in another way; 0 = none known.
  double break_bytes = 0;
};

// "all_reduce ring on 2 ranks".
std::string describe_curve(const std::string& collective, const std::string& algorithm, int ranks);

// Every verified row with a time and a payload; the others are named in `skipped`.
std::vector<SampleRow> sample_rows(const std::vector<Evidence>& evidence,
                                   std::vector<std::string>& skipped);

}  // namespace nqd::reports
