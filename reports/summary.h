// Figures computed from raw samples: the "summary" of a document and the cards of a report page.
#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "engine/records.h"

namespace nqd::reports {

// One (collective, algorithm, ranks) of a sweep.
struct FabricSummary {
  std::string collective;
  std::string algorithm;
  int ranks = 0;
  double peak_busbw_gbps = 0;
  std::uint64_t peak_bytes = 0;      // the size that reached it
  std::uint64_t smallest_bytes = 0;  // the smallest size measured …
  double smallest_p50_s = 0;         // … and its time: the latency
  std::uint64_t wrong = 0;           // wrong elements over all sizes
};
// In the order of first appearance.
std::vector<FabricSummary> summarize(const collectives::BenchResult& result);

struct TrainSummary {
  std::int64_t steps = 0;
  std::int64_t tokens = 0;
  std::optional<double> first_loss, final_loss;
  std::optional<double> first_heldout_loss;  // when there are at least two evaluations
  std::optional<double> final_heldout_loss;
  // Over the steps after the first, which pays for page faults and set-up; over it when alone.
  std::optional<double> step_p50_s, step_p95_s;
  int exact_rows = 0, exact_rows_ok = 0;
};
TrainSummary summarize(const engine::TrainResult& result);

}  // namespace nqd::reports
