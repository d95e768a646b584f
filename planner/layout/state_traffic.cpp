#include "planner/layout/state_traffic.h"

#include <algorithm>
#include <utility>

#include "collectives/canonical/traffic.h"
#include "planner/layout/engine_algorithm.h"
#include "planner/layout/state_buffers.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;
using Purpose = StateCall::Purpose;

constexpr std::size_t kFloatBytes = 4;

// One communicator as this rank sees it.
struct Members {
  std::string name;
  std::int64_t ranks = 1;
  std::int64_t rank = 0;
  bool reaches_memory = true;
};

class StepCalls {
 public:
  StepCalls(const StateShape& shape, const std::vector<LocalUnit>& units, std::int64_t rank,
            const StateTrafficOptions& options)
      : shape_(shape), units_(units), rank_(rank), options_(options) {}

  std::vector<StateCall> make() {
    if (shape_.dp > 1) {
      add_reductions();
      add_gathers();
    }
    add_ends();
    return std::move(calls_);
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

  Algorithm algorithm(const Members& group, Collective collective, std::uint64_t bytes,
                      DType type) const {
    return engine_algorithm(shape_.numerics, collective, group.ranks, bytes, type,
                            group.reaches_memory);
  }

  void add(const Members& group, Collective collective, std::int64_t elements, DType type,
           std::int64_t times, Purpose purpose) {
    if (elements == 0 || times == 0 || group.ranks == 1) return;
    const auto count = static_cast<std::size_t>(elements);
    const std::size_t element = size_bytes(type);
    StateCall call{.group = group.name,
                   .purpose = purpose,
                   .collective = collective,
                   .algorithm = purpose == Purpose::kReplicaSum &&
                                        shape_.bucket_algorithm != collectives::Algorithm::kAuto
                                    ? shape_.bucket_algorithm
                                    : algorithm(group, collective, count * element, type),
                   .elements = elements,
                   .type = type,
                   .calls = times};
    call.sent =
        collectives::rank_traffic(collective, call.algorithm, static_cast<std::size_t>(group.ranks),
                                  static_cast<std::size_t>(group.rank), count, element);
    call.sent.messages *= static_cast<std::uint64_t>(times);
    call.sent.bytes_sent *= static_cast<std::uint64_t>(times);
    calls_.push_back(std::move(call));
  }

  // Partial sums that one collective does not add: as many all_to_alls as the replica with most of
  // them has, for an all_reduce an all_gather of the parts at the end
  // (collectives/canonical/canonical.h).
  void add_exchange(std::int64_t elements, bool gathers) {
    const Members group = replicas();
    std::vector<collectives::IndexRange> ranges;
    for (std::int64_t replica = 0; replica < shape_.replicas(); ++replica) {
      ranges.push_back(addition_order(shape_, replica).range);
    }
    const collectives::ContributionLayout layout(std::move(ranges));
    add(group, Collective::kAllToAll, elements, DType::kFloat32,
        static_cast<std::int64_t>(layout.most_nodes()), Purpose::kReplicaExchange);
    calls_.back().sent = collectives::canonical_traffic(
        Collective::kReduceScatter, layout, calls_.back().algorithm,
        static_cast<std::size_t>(group.rank), static_cast<std::size_t>(elements), kFloatBytes);
    if (!gathers) return;
    add(group, Collective::kAllGather, elements, DType::kFloat32, 1, Purpose::kReplicaExchange);
  }

  // Gradients over the replicas, `elements` of a bucket or unit.
  void add_sum(std::int64_t elements, double ready) {
    if (shape_.replicas() == 1 || elements == 0) return;
    const bool scatters = shape_.engine == Engine::kZero1;
    if (!sums_evenly(shape_)) return add_exchange(elements, !scatters);
    add(replicas(), scatters ? Collective::kReduceScatter : Collective::kAllReduce, elements,
        DType::kFloat32, 1, Purpose::kReplicaSum);
    calls_.back().ready = ready;
  }

  void add_reductions() {
    std::int64_t all = 0;
    for (const LocalUnit& unit : units_) all += unit.elements;
    // Backward has done what lies behind element `begin`.
    const auto ready = [&](std::int64_t begin) {
      return 1 - static_cast<double>(begin) / static_cast<double>(std::max<std::int64_t>(all, 1));
    };
    if (shape_.engine == Engine::kDdp) {
      for (const Bucket& bucket : unit_buckets(shape_, units_)) {
        add_sum(bucket.count, ready(bucket.begin));
      }
      return;
    }
    const bool chunks = addition_order(shape_, 0).per_micro_batch > 1;
    std::int64_t begin = all;
    for (auto unit = units_.rbegin(); unit != units_.rend(); ++unit) {
      begin -= unit->elements;
      if (sharded() && unit->elements > 0) {
        add(dp(), chunks ? Collective::kAllToAll : Collective::kReduceScatter,
            shape_.padded(unit->elements), DType::kFloat32, shape_.micro_batches,
            Purpose::kLeafSum);
        calls_.back().ready = ready(begin);
      }
      add_sum(sharded() ? shape_.part(unit->elements) : shape_.padded(unit->elements),
              ready(begin));
    }
  }

  void add_gathers() {
    if (shape_.parts() == 1) return;
    std::size_t index = 0;
    for (const LocalUnit& unit : units_) {
      if (!unit.holds_weights) continue;
      const bool uses = shape_.shards_weights();
      std::int64_t times = 1;
      if (uses)
        times = options_.gathers.empty() ? 2 * shape_.micro_batches : options_.gathers[index];
      add(dp(), Collective::kAllGather, shape_.padded(unit.elements), shape_.weights, times,
          uses ? Purpose::kUseGather : Purpose::kUpdateGather);
      ++index;
    }
  }

  void add_ends() {
    if (!shape_.tied_ends) return;
    for (const LocalUnit& unit : units_) {
      const bool first = unit.role == UnitRole::kTokenEmbedding;
      if (!first && unit.role != UnitRole::kTied) continue;
      const Members ends{"embedding", 2, first ? 0 : 1, options_.embedding_reaches_memory};
      add(ends, Collective::kAllReduce, shape_.part(unit.elements), DType::kFloat32, 1,
          Purpose::kEnds);
    }
  }

  const StateShape& shape_;
  const std::vector<LocalUnit>& units_;
  std::int64_t rank_;
  const StateTrafficOptions& options_;
  std::vector<StateCall> calls_;
};

}  // namespace

std::vector<StateCall> state_calls(const StateShape& shape, const std::vector<LocalUnit>& units,
                                   std::int64_t rank, const StateTrafficOptions& options) {
  return StepCalls(shape, units, rank, options).make();
}

std::vector<StateTraffic> state_traffic(const StateShape& shape,
                                        const std::vector<LocalUnit>& units, std::int64_t rank,
                                        const StateTrafficOptions& options) {
  std::vector<StateTraffic> rows;
  for (const StateCall& call : state_calls(shape, units, rank, options)) {
    auto row = std::find_if(rows.begin(), rows.end(), [&](const StateTraffic& known) {
      return known.group == call.group && known.collective == call.collective;
    });
    if (row == rows.end()) row = rows.insert(rows.end(), {call.group, call.collective});
    row->calls += static_cast<std::uint64_t>(call.calls);
    row->messages += call.sent.messages;
    row->bytes_sent += call.sent.bytes_sent;
  }
  return rows;
}

}  // namespace nqd::planner
