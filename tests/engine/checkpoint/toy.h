// A small model's state, cut over ranks in the ways that meshes cut it.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/reader.h"
#include "engine/checkpoint/shard.h"

namespace nqd::testing {

// Rows of a matrix cut into columns over `tp` ranks, other tensors whole on the first of them; then
// each rank's flat elements cut over `dp`.
struct Cut {
  int tp = 1;
  int dp = 1;
  int ranks() const { return tp * dp; }
};

std::vector<engine::CheckpointTensor> toy_tensors();
// The value of an element, a function of the step and its place.
float toy_value(std::int64_t step, engine::Quantity quantity, const std::string& tensor,
                std::int64_t element);

// Writes and publishes a generation as all ranks of `cut` would. `past` is its lineage.
engine::Manifest save_toy(engine::Storage& storage, const std::filesystem::path& root,
                          std::int64_t step, const Cut& cut, const std::string& run = "00c0ffee",
                          const std::vector<std::string>& past = {},
                          const std::string& written_at = "2026-11-30T07:00:00Z");

// Whether every element of every quantity is that of the step.
bool holds(const engine::CheckpointReader& reader, std::int64_t step);

}  // namespace nqd::testing
