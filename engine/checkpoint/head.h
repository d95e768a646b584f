// What a manifest says beside its files.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/compatible.h"
#include "engine/checkpoint/manifest.h"
#include "planner/spec.h"

namespace nqd::engine {

// What all generations of a run say of it.
struct SavedRun {
  std::string id;    // 8 hexadecimal digits
  RunValues values;  // but for data.digest
  std::string data_digest;
  std::vector<std::string> lineage;
};

// A random id.
std::string new_run_id();

// All but the files, written now.
Manifest manifest_head(const SavedRun& run, const planner::Config& config, const RunState& state);

}  // namespace nqd::engine
