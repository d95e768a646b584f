// One rank's file of a generation.
#pragma once

#include <filesystem>
#include <functional>
#include <span>
#include <string>
#include <vector>

#include "engine/checkpoint/manifest.h"
#include "engine/checkpoint/storage.h"

namespace nqd::engine {

// Elements of a tensor that go into the file, as many as the extents have.
struct ShardPart {
  std::string tensor;
  Quantity quantity = Quantity::kWeights;
  std::vector<Extent> extents;
  std::vector<std::span<const float>> values;
};

struct ShardOptions {
  double bytes_per_s = 0;  // at most; 0: as fast as it goes
  // Asked before every block. True ends the write with an Error; lifts the limit of the rate.
  std::function<bool()> is_cancelled{};
  std::function<bool()> is_urgent{};
};

// "rank-00003.safetensors".
std::string shard_name(int rank);

// Writes the parts as safetensors ("weights/layers.0.mlp.fc.weight"), syncs the file, and reads it
// back against its checksums. Throws Error (kFault): those of Storage, NQD4020 when it reads back
// as something else.
CheckpointFile write_shard(Storage& storage, const std::filesystem::path& folder,
                           const std::string& name, std::span<const ShardPart> parts,
                           const ShardOptions& options);

// Compares a file with its record; throws Error (kFault, NQD4020) at the first difference.
void read_back(const Storage& storage, const std::filesystem::path& folder,
               const CheckpointFile& file);

}  // namespace nqd::engine
