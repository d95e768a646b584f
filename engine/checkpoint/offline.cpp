#include "engine/checkpoint/offline.h"

#include <algorithm>
#include <vector>

#include "base/error.h"
#include "engine/checkpoint/generations.h"
#include "engine/checkpoint/shard.h"
#include "engine/checkpoint/state.h"
#include "planner/layout/state_buffers.h"
#include "planner/mesh/rank_map.h"

namespace nqd::engine {
namespace {

constexpr std::int64_t kAtATime = 1 << 16;  // elements

// Puts the values of a part, run by run, in pieces of at most kAtATime.
class PartSource {
 public:
  explicit PartSource(const ValueFill& fill) : fill_(fill) { values_.reserve(kAtATime); }

  void operator()(const ShardPart& part, const std::function<void(std::span<const float>)>& put) {
    for (const Extent& extent : part.extents) {
      for (std::int64_t run = 0; run < extent.repeats; ++run) {
        add(part, extent.begin + run * extent.stride, extent.count, put);
      }
    }
    flush(put);
  }

 private:
  void add(const ShardPart& part, std::int64_t begin, std::int64_t count,
           const std::function<void(std::span<const float>)>& put) {
    while (count > 0) {
      const auto held = static_cast<std::int64_t>(values_.size());
      const std::int64_t now = std::min(count, kAtATime - held);
      values_.resize(static_cast<std::size_t>(held + now));
      fill_(part.quantity, part.tensor, begin,
            std::span(values_).subspan(static_cast<std::size_t>(held)));
      if (held + now == kAtATime) flush(put);
      begin += now;
      count -= now;
    }
  }

  void flush(const std::function<void(std::span<const float>)>& put) {
    put(values_);
    values_.clear();
  }

  const ValueFill& fill_;
  std::vector<float> values_;
};

// The files of all ranks.
void write_files(Storage& storage, const std::filesystem::path& folder, Manifest& head,
                 const planner::Config& config, const ValueFill& fill) {
  const planner::StateShape shape = planner::state_shape(config);
  const planner::RankMap ranks(config);
  PartSource source(fill);
  for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
    const planner::RankPlace place = ranks.place(rank);
    const std::vector<ShardPart> parts =
        planned_parts(shape, planner::stage_units(config, place.pp, place.tp), place.dp, place.tp);
    head.files.push_back(write_shard(storage, folder, shard_name(static_cast<int>(rank)), parts,
                                     std::ref(source), {}));
  }
}

// The failure before is the one to report.
void discard_or_leave(Storage& storage, const std::filesystem::path& folder) {
  try {
    discard_cut(storage, folder);
  } catch (const Error&) {
    // What stays is cut, and counts nowhere.
  }
}

}  // namespace

Manifest write_generation(Storage& storage, const std::filesystem::path& root, Manifest head,
                          const planner::Config& config, const ValueFill& fill) {
  const std::vector<GenerationInfo> there = list_generations(storage, root);
  // What another attempt left that was killed is none.
  if (!std::all_of(there.begin(), there.end(), [](const auto& one) { return one.cut; })) {
    throw Error(ExitCode::kUsage, "NQD2085", root.string() + " has generations already",
                "give an empty folder, or one that is not there");
  }
  const std::filesystem::path folder = root / head.generation;
  try {
    storage.make_folder(folder);
    write_files(storage, folder, head, config, fill);
    publish(storage, root, head);
  } catch (...) {
    discard_or_leave(storage, folder);
    throw;
  }
  return head;
}

}  // namespace nqd::engine
