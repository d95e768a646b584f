// What a generation consists of: the records of its manifest (docs/checkpoints.md).
//
// A generation is a folder with one safetensors file a rank and manifest.json, which lists every
// file with the checksums of its blocks, and of every tensor which elements lie where. Each element
// of the model's state is in exactly one file, whatever the mesh, so that any mesh can read it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace nqd::engine {

// The newest that this nqd reads. It writes 1, or 2 for a run that has skipped batches: what knows
// of no data offset would train on other data.
inline constexpr int kCheckpointFormat = 2;
// Of a file, what one checksum covers.
inline constexpr std::uint64_t kCheckpointBlock = std::uint64_t{1} << 20;

// What of a parameter is saved, float32 each: the weight (the master of 16-bit weights), the
// optimizer's moments, the moving average.
enum class Quantity : std::uint8_t { kWeights, kMoment0, kMoment1, kEma };
inline constexpr std::size_t kQuantities = 4;
// "weights", "moments.0", "moments.1", "ema".
std::string_view name(Quantity quantity);

// Elements of a row-major tensor: `repeats` runs of `count`, `stride` apart.
struct Extent {
  std::int64_t begin = 0;
  std::int64_t count = 0;
  std::int64_t stride = 0;
  std::int64_t repeats = 1;
  std::int64_t elements() const { return count * repeats; }
  bool operator==(const Extent&) const = default;
};
// Adds the run [begin, begin + count) behind those of `extents`, joined with the last where it
// continues it or its rhythm.
void append_run(std::vector<Extent>& extents, std::int64_t begin, std::int64_t count);
std::int64_t elements_of(std::span<const Extent> extents);

// A tensor's elements in one file, one after the other.
struct CheckpointPart {
  std::string tensor;
  Quantity quantity = Quantity::kWeights;
  std::uint64_t offset = 0;  // bytes from the file's start
  std::vector<Extent> extents;
  std::uint64_t bytes() const {
    return static_cast<std::uint64_t>(elements_of(extents)) * sizeof(float);
  }
  bool operator==(const CheckpointPart&) const = default;
};

struct CheckpointFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::vector<std::uint64_t> blocks;  // XXH3 of every kCheckpointBlock bytes
  std::vector<CheckpointPart> parts;
  // The tensors that it has elements of, each once, in the order of the parts.
  std::vector<std::string> tensors() const;
  std::int64_t elements() const;  // of all parts
  bool operator==(const CheckpointFile&) const = default;
};

struct CheckpointTensor {
  std::string name;
  std::vector<std::int64_t> shape;
  std::int64_t elements() const;
  bool operator==(const CheckpointTensor&) const = default;
};

// What a run knows beside its tensors. Random numbers are functions of seed and step, the order of
// samples of seed, step and data_offset.
struct RunState {
  std::int64_t step = 0;  // the last one done
  std::int64_t skipped_steps = 0;
  std::int64_t skipped_in_a_row = 0;
  float loss_scale = 1.0F;
  int good_steps = 0;  // since the loss scale changed
  double noise = 0;    // engine/numerics/noise_scale.h
  double signal = 0;
  std::int64_t data_offset = 0;     // step s reads the batch of step s + data_offset
  std::int64_t roll_backs = 0;      // that led to it
  std::vector<double> good_losses;  // engine/train/step_guard.h
  bool operator==(const RunState&) const = default;
  int format() const { return data_offset > 0 ? 2 : 1; }
};

// Of a time such as 2026-11-30T16:21:58Z; nothing for any other text.
std::optional<std::int64_t> unix_seconds(const std::string& utc);

struct Manifest {
  std::string generation;  // its folder's name
  std::string written_at;  // UTC, ISO 8601
  std::string mesh;        // "ddp dp 2 tp 1 pp 1": who wrote it
  std::string data_digest;
  std::map<std::string, std::string> config;  // every resolved value, by dotted key
  RunState state;
  // The generations that the run and those before it went on from, the oldest first.
  std::vector<std::string> lineage;
  std::vector<Quantity> quantities;
  std::vector<CheckpointTensor> tensors;  // in the order of planner::parameters
  std::vector<CheckpointFile> files;      // by rank
  bool operator==(const Manifest&) const = default;
};

}  // namespace nqd::engine
