#include "planner/estimate/time/stage_kinds.h"

#include <algorithm>

#include "planner/mesh/layer_split.h"

namespace nqd::planner {
namespace {

ScheduleSpec spec_of(const Candidate& c) { return {c.schedule, c.pp, c.micro_batches, c.vpp}; }

void count_one(const StageShare& share, std::vector<StageKind>& kinds) {
  const auto known = std::find_if(kinds.begin(), kinds.end(),
                                  [&](const StageKind& kind) { return kind.share == share; });
  if (known != kinds.end()) {
    ++known->count;
  } else {
    kinds.push_back({share, 1});
  }
}

}  // namespace

StageKinds::StageKinds(const Config& config, const ModelShape& shape) : config_(config) {
  for (const BlockRun& run : shape.runs) {
    if (run.kind == shape.embedding || run.kind == shape.head || run.kind == shape.mtp) continue;
    const bool experts = shape.kinds[static_cast<std::size_t>(run.kind)].all_to_all_elements > 0;
    (experts ? moe_kind_ : dense_kind_) = run.kind;
    (experts ? moe_layers_ : dense_layers_) += run.count;
  }
}

std::span<const std::int64_t> StageKinds::split_of(const Candidate& c) const {
  const ParallelSpec& parallel = config_.parallel;
  if (c.pp != parallel.pp || c.vpp != parallel.vpp) return {};
  return parallel.pipeline_split;
}

std::vector<StageKind> StageKinds::count_kinds(const Candidate& c) const {
  std::vector<StageKind> kinds;
  for (std::int32_t stage = 0; stage < c.pp; ++stage) {
    count_one(stage_share(spec_of(c), split_of(c), dense_layers_, moe_layers_, stage), kinds);
  }
  return kinds;
}

std::vector<ChunkRow> StageKinds::count_rows(const Candidate& c) const {
  if (c.schedule != Schedule::kInterleaved) return {};
  std::vector<ChunkRow> rows;
  const std::span<const std::int64_t> split = split_of(c);
  const std::int64_t chunks = std::int64_t{c.pp} * c.vpp;
  const std::int64_t layers = dense_layers_ + moe_layers_;
  bool uneven = false;
  std::int64_t first = 0;
  for (std::int64_t number = 0; number < chunks;) {
    ChunkRow row{{}, 1};
    for (std::int32_t stage = 0; stage < c.pp; ++stage, ++number) {
      const std::int64_t count = split.empty() ? layers_of_chunk(layers, chunks, number)
                                               : split[static_cast<std::size_t>(number)];
      count_one(share_of(first, count, number, chunks), row.chunks);
      uneven = uneven || count * chunks != layers;
      first += count;
    }
    if (!rows.empty() && rows.back().chunks == row.chunks) {
      ++rows.back().count;
    } else {
      rows.push_back(std::move(row));
    }
  }
  return uneven ? rows : std::vector<ChunkRow>();
}

StageShare StageKinds::share_of(std::int64_t first, std::int64_t count, std::int64_t number,
                                std::int64_t chunks) const {
  StageShare share;
  share.dense = std::clamp<std::int64_t>(dense_layers_ - first, 0, count);
  share.moe = count - share.dense;
  share.first = number == 0;
  share.last = number == chunks - 1;
  return share;
}

const StageKinds::Entry& StageKinds::entry_of(const Candidate& c) {
  const auto matches = [&](const Entry& entry) {
    return entry.pp == c.pp && entry.vpp == c.vpp && entry.schedule == c.schedule;
  };
  if (last_ < entries_.size() && matches(entries_[last_])) return entries_[last_];
  const auto known = std::find_if(entries_.begin(), entries_.end(), matches);
  last_ = static_cast<std::size_t>(known - entries_.begin());
  if (known == entries_.end()) {
    entries_.push_back({c.pp, c.vpp, c.schedule, count_kinds(c), count_rows(c)});
  }
  return entries_[last_];
}

const std::vector<StageKind>& StageKinds::of(const Candidate& c) { return entry_of(c).kinds; }
const std::vector<ChunkRow>& StageKinds::uneven_rows(const Candidate& c) {
  return entry_of(c).rows;
}

StageShare StageKinds::chunk(const Candidate& c, std::int32_t stage, std::int32_t chunk) const {
  const ScheduleSpec spec = spec_of(c);
  const std::int64_t chunks = chunk_count(spec);
  // zb-v: the second chunk of a stage lies on the way back up.
  const std::int64_t number = c.schedule == Schedule::kZbV && chunk == 1
                                  ? chunks - 1 - stage
                                  : std::int64_t{chunk} * c.pp + stage;
  const std::span<const std::int64_t> split = split_of(c);
  const std::int64_t layers = dense_layers_ + moe_layers_;
  std::int64_t first = 0;
  std::int64_t count = 0;
  for (std::int64_t i = 0; i <= number; ++i) {
    first += count;
    count = split.empty() ? layers_of_chunk(layers, chunks, i) : split[static_cast<std::size_t>(i)];
  }
  return share_of(first, count, number, chunks);
}

}  // namespace nqd::planner
