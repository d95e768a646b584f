// `nqd checkpoint … --json`.
#pragma once

#include <string>
#include <vector>

#include "engine/checkpoint/compare.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/reader.h"
#include "planner/mesh/rank_map.h"

namespace nqd::reports {

// {"generations": [{"name", "step", "bytes", "written_at", "mesh", "complete", "latest", "why"}]}.
std::string generations_json(const std::vector<engine::GenerationInfo>& generations);
// Of the manifest what a person asks: state, config, tensors, and of every file its name, bytes,
// tensors and elements, with the rank that wrote it and its place. `writers` by rank; empty: places
// are null.
std::string manifest_summary_json(const engine::Manifest& manifest, const std::string& sha256,
                                  const std::vector<planner::RankPlace>& writers);
// {"generation", "ok", "warning", "damage": [{"file", "begin", "end", "tensors", "what"}]}. A
// warning, empty or why the generation is not the one that LATEST names, is not ok either.
std::string damage_json(const std::string& generation, const std::string& warning,
                        const std::vector<engine::CheckpointDamage>& damage);

// {"a", "b", "same", "values": [{"key", "a", "b"}], "tensors": [{"tensor", "quantity", "elements",
// "largest", "relative_norm", "only_in"}]}.
std::string differences_json(const std::string& a, const std::string& b,
                             const engine::CheckpointDifferences& found);

}  // namespace nqd::reports
