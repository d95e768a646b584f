// Which different stages a pipeline has, and how many of each: a few, however long it is.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/estimate/candidate.h"
#include "planner/mesh/stages.h"
#include "planner/models/shape.h"
#include "planner/spec.h"

namespace nqd::planner {

struct StageKind {
  StageShare share;
  std::int64_t count = 0;
  bool operator==(const StageKind&) const = default;
};

// Virtual stages that work side by side, one of each rank, and how many such rows follow.
struct ChunkRow {
  std::vector<StageKind> chunks;
  std::int64_t count = 0;
};

// `config` outlives it. Remembers every (pp, vpp, schedule) it was asked for.
class StageKinds {
 public:
  StageKinds(const Config& config, const ModelShape& shape);

  // In the order of their first stages. Valid until the next call.
  const std::vector<StageKind>& of(const Candidate& candidate);
  // The rows of an interleaved pipeline whose virtual stages differ by layers, in the order of the
  // model; else none.
  const std::vector<ChunkRow>& uneven_rows(const Candidate& candidate);
  // What chunk `chunk` (0 … vpp−1) of a stage holds.
  StageShare chunk(const Candidate& candidate, std::int32_t stage, std::int32_t chunk) const;

  std::int64_t dense_kind() const { return dense_kind_; }
  std::int64_t moe_kind() const { return moe_kind_; }

 private:
  struct Entry {
    std::int32_t pp = 0;
    std::int32_t vpp = 0;
    Schedule schedule = Schedule::k1F1B;
    std::vector<StageKind> kinds;
    std::vector<ChunkRow> rows;
  };
  const Entry& entry_of(const Candidate& candidate);
  std::vector<ChunkRow> count_rows(const Candidate& candidate) const;
  std::vector<StageKind> count_kinds(const Candidate& candidate) const;
  // `count` layers from `first` on, in chunk `number` of `chunks`.
  StageShare share_of(std::int64_t first, std::int64_t count, std::int64_t number,
                      std::int64_t chunks) const;
  std::span<const std::int64_t> split_of(const Candidate& candidate) const;

  const Config& config_;
  std::int64_t dense_kind_ = -1;  // index into ModelShape::kinds
  std::int64_t moe_kind_ = -1;
  std::int64_t dense_layers_ = 0;
  std::int64_t moe_layers_ = 0;
  std::size_t last_ = 0;
  std::vector<Entry> entries_;
};

}  // namespace nqd::planner
