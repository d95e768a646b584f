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
  // Asked before every block and while it waits for the rate. True ends the write with an Error;
  // lifts the limit of the rate.
  std::function<bool()> is_cancelled{};
  std::function<bool()> is_urgent{};
};

// "rank-00003.safetensors".
std::string shard_name(int rank);

// Gives the values of a part, in the order of its extents, in pieces of any size.
using ShardSource =
    std::function<void(const ShardPart& part, const std::function<void(std::span<const float>)>&)>;

// Writes the parts as safetensors ("weights/layers.0.mlp.fc.weight"), syncs the file, and reads it
// back against its checksums. Memory is for a block. Throws Error (kFault): those of Storage,
// NQD4020 when it reads back as something else; and what `source` throws.
CheckpointFile write_shard(Storage& storage, const std::filesystem::path& folder,
                           const std::string& name, std::span<const ShardPart> parts,
                           const ShardSource& source, const ShardOptions& options);
// Of the parts' own values.
CheckpointFile write_shard(Storage& storage, const std::filesystem::path& folder,
                           const std::string& name, std::span<const ShardPart> parts,
                           const ShardOptions& options);

// Copies a file to another folder, each block checked against the record before it is written,
// syncs the copy and reads it back. Memory is for a block. Throws Error (kFault) as write_shard
// does, and NQD4022 when the file is not as it was written.
void copy_shard(Storage& storage, const std::filesystem::path& from,
                const std::filesystem::path& to, const CheckpointFile& file,
                const ShardOptions& options);

// Compares a file with its record; throws Error (kFault, NQD4020) at the first difference.
void read_back(const Storage& storage, const std::filesystem::path& folder,
               const CheckpointFile& file);

}  // namespace nqd::engine
