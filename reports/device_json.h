// What a bench on devices adds to its document.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/nccl/topology.h"
#include "reports/envelope.h"
#include "reports/json_writer.h"

namespace nqd::reports {

struct DeviceEvidence {
  std::string nccl_version;
  bool graph = false;                              // calls were launched as CUDA graphs
  std::vector<std::optional<double>> estimates_s;  // NCCL's, by row
  std::vector<collectives::DeviceRecord> devices;  // by rank
};

// bench_json with "library_estimate_s" in every row and the member "device".
std::string bench_json(const Envelope& envelope, const collectives::BenchResult& result,
                       const DeviceEvidence& evidence);

// "device": {nccl_version, graph, ranks}.
void write_device(JsonWriter& json, const DeviceEvidence& evidence);

}  // namespace nqd::reports
