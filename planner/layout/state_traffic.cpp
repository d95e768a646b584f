#include "planner/layout/state_traffic.h"

#include <algorithm>
#include <utility>

#include "planner/layout/state_buffers.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

constexpr std::size_t kFloatBytes = 4;

// One communicator as this rank sees it.
struct Members {
  std::string name;
  std::int64_t ranks = 1;
  std::int64_t rank = 0;
  bool reaches_memory = true;
};

class StepTraffic {
 public:
  StepTraffic(const StateShape& shape, const std::vector<LocalUnit>& units, std::int64_t rank,
              const StateTrafficOptions& options)
      : shape_(shape), units_(units), rank_(rank), options_(options) {}

  std::vector<StateTraffic> make() {
    if (shape_.dp > 1) {
      add_reductions();
      add_gathers();
    }
    add_ends();
    return std::move(rows_);
  }

 private:
  bool hybrid() const { return shape_.engine == Engine::kHsdp; }
  bool sharded() const { return shape_.gradient_shards() > 1; }
  Members dp() const {
    const std::int64_t ranks = hybrid() ? shape_.hsdp_shard : shape_.dp;
    return {hybrid() ? "dp_shard" : "dp", ranks, rank_ % ranks, options_.dp_reaches_memory};
  }
  Members replicas() const {
    if (!hybrid()) return dp();
    return {"dp_replicate", shape_.replicas(), rank_ / shape_.hsdp_shard,
            options_.replicas_reach_memory};
  }

  StateTraffic& row(const std::string& group, Collective collective) {
    for (StateTraffic& known : rows_) {
      if (known.group == group && known.collective == collective) return known;
    }
    StateTraffic& made = rows_.emplace_back();
    made.group = group;
    made.collective = collective;
    return made;
  }

  Algorithm algorithm(const Members& group, Collective collective, std::uint64_t bytes) const {
    return state_algorithm(collective, group.ranks, bytes, shape_.canonical(),
                           group.reaches_memory);
  }

  void add(const Members& group, Collective collective, std::int64_t elements, std::size_t element,
           std::int64_t times) {
    if (elements == 0 || times == 0 || group.ranks == 1) return;
    const auto count = static_cast<std::size_t>(elements);
    const collectives::RankTraffic one =
        collectives::rank_traffic(collective, algorithm(group, collective, count * element),
                                  static_cast<std::size_t>(group.ranks),
                                  static_cast<std::size_t>(group.rank), count, element);
    StateTraffic& of = row(group.name, collective);
    const auto calls = static_cast<std::uint64_t>(times);
    of.calls += calls;
    of.messages += calls * one.messages;
    of.bytes_sent += calls * one.bytes_sent;
  }

  // As many rounds as the replica with most partial sums has, each an all_to_all of one of every
  // replica that has one left; for an all_reduce an all_gather of the parts at the end
  // (collectives/canonical/canonical.h).
  void add_exchange(std::int64_t elements, bool gathers) {
    const Members group = replicas();
    std::uint64_t own = 0;
    std::uint64_t all = 0;
    std::uint64_t most = 0;
    std::uint64_t fewest = ~std::uint64_t{0};
    for (std::int64_t replica = 0; replica < shape_.replicas(); ++replica) {
      const AdditionOrder order = addition_order(shape_, replica);
      const std::uint64_t nodes = collectives::maximal_nodes(order.range, order.total).size();
      if (replica == group.rank) own = nodes;
      all += nodes;
      most = std::max(most, nodes);
      fewest = std::min(fewest, nodes);
    }
    const auto count = static_cast<std::size_t>(elements);
    const std::uint64_t part = collectives::chunk_of(count, static_cast<std::size_t>(group.ranks),
                                                     static_cast<std::size_t>(group.rank))
                                   .count;
    const collectives::RankTraffic whole = collectives::rank_traffic(
        Collective::kAllToAll, algorithm(group, Collective::kAllToAll, count * kFloatBytes),
        static_cast<std::size_t>(group.ranks), static_cast<std::size_t>(group.rank), count,
        kFloatBytes);
    StateTraffic& of = row(group.name, Collective::kAllToAll);
    of.calls += most;
    of.messages +=
        fewest * whole.messages + (most - fewest) * static_cast<std::uint64_t>(group.ranks - 1);
    of.bytes_sent +=
        kFloatBytes * (group.reaches_memory ? (all - own) * part : own * (count - part));
    if (gathers) add(group, Collective::kAllGather, elements, kFloatBytes, 1);
  }

  // Gradients over the replicas, `elements` of a bucket or unit.
  void add_sum(std::int64_t elements) {
    if (shape_.replicas() == 1 || elements == 0) return;
    const bool scatters = shape_.engine == Engine::kZero1;
    if (!sums_evenly(shape_)) return add_exchange(elements, !scatters);
    add(replicas(), scatters ? Collective::kReduceScatter : Collective::kAllReduce, elements,
        kFloatBytes, 1);
  }

  void add_reductions() {
    if (shape_.engine == Engine::kDdp) {
      for (const Bucket& bucket : unit_buckets(shape_, units_)) add_sum(bucket.count);
      return;
    }
    const bool chunks = addition_order(shape_, 0).per_micro_batch > 1;
    for (const LocalUnit& unit : units_) {
      if (sharded()) {
        add(dp(), chunks ? Collective::kAllToAll : Collective::kReduceScatter,
            shape_.padded(unit.elements), kFloatBytes, shape_.micro_batches);
      }
      add_sum(sharded() ? shape_.part(unit.elements) : shape_.padded(unit.elements));
    }
  }

  void add_gathers() {
    if (shape_.parts() == 1) return;
    std::size_t index = 0;
    for (const LocalUnit& unit : units_) {
      if (!unit.holds_weights) continue;
      std::int64_t times = 1;
      if (shape_.shards_weights()) {
        times = options_.gathers.empty() ? 2 * shape_.micro_batches : options_.gathers[index];
      }
      add(dp(), Collective::kAllGather, shape_.padded(unit.elements), size_bytes(shape_.weights),
          times);
      ++index;
    }
  }

  void add_ends() {
    if (!shape_.tied_ends) return;
    for (const LocalUnit& unit : units_) {
      const bool first = unit.role == UnitRole::kTokenEmbedding;
      if (!first && unit.role != UnitRole::kTied) continue;
      const Members ends{"embedding", 2, first ? 0 : 1, options_.embedding_reaches_memory};
      add(ends, Collective::kAllReduce, shape_.part(unit.elements), kFloatBytes, 1);
    }
  }

  const StateShape& shape_;
  const std::vector<LocalUnit>& units_;
  std::int64_t rank_;
  const StateTrafficOptions& options_;
  std::vector<StateTraffic> rows_;
};

}  // namespace

Algorithm state_algorithm(Collective collective, std::int64_t ranks, std::uint64_t bytes,
                          bool canonical, bool reaches_memory) {
  if (reaches_memory) return Algorithm::kDirect;
  if (collective == Collective::kAllToAll) return Algorithm::kPairwise;
  if (collective == Collective::kAllGather || !canonical) return Algorithm::kRing;
  return collectives::canonical_algorithm(collective, static_cast<std::size_t>(ranks), bytes,
                                          DType::kFloat32, false)
      .value_or(Algorithm::kPairwise);
}

std::vector<StateTraffic> state_traffic(const StateShape& shape,
                                        const std::vector<LocalUnit>& units, std::int64_t rank,
                                        const StateTrafficOptions& options) {
  return StepTraffic(shape, units, rank, options).make();
}

}  // namespace nqd::planner
