// The parts of a bench document beside its rows.
#pragma once

#include <vector>

#include "collectives/bench/bench.h"
#include "reports/json_writer.h"

namespace nqd::reports {

// "usage": {minor_faults, major_faults, voluntary_switches, involuntary_switches}, each by rank and
// a call; null when it was not measured.
void write_usage(JsonWriter& json, const std::vector<collectives::RankUsage>& usage);

// "machine": {ranks, hosts}; null when nobody communicated.
void write_machine(JsonWriter& json, const collectives::MachineRecord& machine);

// "memory_rows", "all_reduce_limits", "pairs", "stragglers".
void write_probes(JsonWriter& json, const collectives::BenchResult& result);

}  // namespace nqd::reports
