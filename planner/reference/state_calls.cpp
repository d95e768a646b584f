#include <algorithm>
#include <utility>

#include "planner/layout/state_traffic.h"
#include "planner/mesh/rank_map.h"
#include "planner/reference/traffic.h"

namespace nqd::planner {
namespace {

using Purpose = StateCall::Purpose;

// Adds the calls of planner/layout/state_traffic.h, and what of their time nothing hides.
class StateCalls {
 public:
  StateCalls(const Config& config, const ReferenceStage& stage, const MicroBatchTime& compute,
             std::int64_t rank, CallTally& tally)
      : config_(config),
        stage_(stage),
        place_(RankMap(config).place(rank)),
        shape_(state_shape(config)),
        compute_(compute),
        tally_(tally),
        sharding_(rank_group(config, dp_group(config.parallel), place_.dp)),
        replicas_(sharding_),
        ends_(rank_group(config, end_group(), place_.pp > 0 ? 1 : 0)) {
    if (shape_.engine != Engine::kHsdp) return;
    const Group all = sharding_.group;
    const std::int64_t shard = shape_.hsdp_shard;
    sharding_ = rank_group(config, {"dp_shard", shard, all.stride}, place_.dp % shard);
    replicas_ = rank_group(config, {"dp_replicate", all.size / shard, all.stride * shard},
                           place_.dp / shard);
  }

  void add() {
    const std::vector<LocalUnit>& units = stage_.units;
    StateTrafficOptions options;
    options.dp_reaches_memory = sharding_.reaches_memory;
    options.replicas_reach_memory = replicas_.reaches_memory;
    options.embedding_reaches_memory = ends_.reaches_memory;
    const std::vector<UnitUses> uses = unit_uses(config_, stage_);
    for (std::size_t i = 0; i < units.size(); ++i) {
      if (!units[i].holds_weights) continue;
      options.gathers.push_back(shape_.micro_batches * (uses[i].forward + uses[i].backward));
    }
    for (const StateCall& call : state_calls(shape_, units, place_.dp, options)) add(call);
    expose();
  }

 private:
  Group end_group() const {
    const Group pipeline = pp_group(config_.parallel);
    return {"embedding", 2, pipeline.stride * (pipeline.size - 1)};
  }

  const RankGroup& group_of(const StateCall& call) const {
    if (call.group == "embedding") return ends_;
    return call.group == "dp_replicate" ? replicas_ : sharding_;
  }

  void add(const StateCall& call) {
    const double seconds = tally_.add(group_of(call), call);
    const double all_s = static_cast<double>(call.calls) * seconds;
    switch (call.purpose) {
      case Purpose::kReplicaSum:
        replica_sums_.push_back({call.ready, call.ready, 1, seconds});
        replica_collective_ = call.collective;
        break;
      case Purpose::kLeafSum:
        leaf_sums_.push_back({call.ready, call.ready, 1, seconds});
        leaf_collective_ = call.collective;
        break;
      case Purpose::kUseGather:
        gathered_s_ += all_s;
        longest_gather_s_ = std::max(longest_gather_s_, seconds);
        break;
      case Purpose::kReplicaExchange:
      case Purpose::kUpdateGather:
      case Purpose::kEnds:
        tally_.expose(group_of(call), call.collective, all_s, false);
        break;
    }
  }

  void expose() {
    const auto m = static_cast<double>(shape_.micro_batches);
    tally_.expose(replicas_, replica_collective_,
                  exposed_seconds(replica_sums_, compute_.backward_s), false);
    tally_.expose(sharding_, leaf_collective_, m * exposed_seconds(leaf_sums_, compute_.backward_s),
                  m > 1);
    // The next unit is gathered beside the work on this one: the first of either pass is waited
    // for, or what the passes are too short to hide.
    const double hidden_s = m * (compute_.forward_s + compute_.backward_s);
    tally_.expose(
        sharding_, collectives::Collective::kAllGather,
        std::min(gathered_s_, std::max(2 * m * longest_gather_s_, gathered_s_ - hidden_s)), true);
  }

  const Config& config_;
  const ReferenceStage& stage_;
  const RankPlace place_;
  const StateShape shape_;
  const MicroBatchTime& compute_;
  CallTally& tally_;
  RankGroup sharding_;  // without shards all copies
  RankGroup replicas_;  // that sum
  const RankGroup ends_;
  std::vector<CallRun> replica_sums_;
  std::vector<CallRun> leaf_sums_;
  collectives::Collective replica_collective_ = collectives::Collective::kAllReduce;
  collectives::Collective leaf_collective_ = collectives::Collective::kReduceScatter;
  double gathered_s_ = 0;
  double longest_gather_s_ = 0;
};

bool holds_head(const LocalUnit& unit) {
  return std::any_of(unit.tensors.begin(), unit.tensors.end(),
                     [](const LocalTensor& tensor) { return tensor.full.name == "head.weight"; });
}

}  // namespace

std::vector<UnitUses> unit_uses(const Config& config, const ReferenceStage& stage) {
  const std::int64_t again = config.train.recompute == Recompute::kFull ? 1 : 0;
  std::vector<UnitUses> uses;
  std::size_t table = 0;
  bool reads_table = false;
  for (const LocalUnit& unit : stage.units) {
    if (unit.role == UnitRole::kTokenEmbedding) table = uses.size();
    if (unit.role == UnitRole::kHead) reads_table = !holds_head(unit);
    if (unit.role == UnitRole::kTied && unit.holds_weights) reads_table = false;
    const std::int64_t own = unit.holds_weights ? 1 : 0;
    uses.push_back({own, own + (unit.role == UnitRole::kLayer ? again : 0)});
  }
  if (reads_table) {
    ++uses[table].forward;
    ++uses[table].backward;
  }
  return uses;
}

void add_state_calls(const Config& config, const ReferenceStage& stage,
                     const MicroBatchTime& compute, std::int64_t rank, CallTally& calls) {
  StateCalls(config, stage, compute, rank, calls).add();
}

}  // namespace nqd::planner
