#include "planner/reference/reference_plan.h"
#include "planner/reference/group_scratch.h"

#include <algorithm>
#include <utility>

#include "base/ledger.h"
#include "collectives/cost.h"
#include "planner/layout/activation_buffers.h"
#include "planner/layout/control.h"
#include "planner/layout/state_buffers.h"
#include "planner/mesh/fabric.h"
#include "planner/mesh/rank_map.h"
#include "planner/plan/gradient_choice.h"
#include "planner/reference/step_time.h"
#include "planner/reference/traffic.h"
#include "planner/traffic/calls.h"

namespace nqd::planner {
namespace {

void put(StageMemory& memory, MemoryTag tag, std::int64_t amount) {
  if (amount <= 0) return;
  const auto bytes = static_cast<double>(amount);
  memory.categories[std::string(name(tag))] += bytes;
  (is_persistent(tag) ? memory.persistent_bytes : memory.transient_bytes) += bytes;
  memory.total_bytes += bytes;
}

GroupTraffic traffic_of(const CallRow& row) {
  GroupTraffic traffic;
  traffic.group = row.group;
  traffic.collective = name(row.collective);
  traffic.algorithm = name(row.algorithm);
  traffic.calls = static_cast<double>(row.calls);
  traffic.bytes_sent_per_rank = static_cast<double>(row.bytes_sent);
  traffic.time_s = row.time_s;
  traffic.exposed_s = row.exposed_s;
  traffic.time_known = row.time_known;
  return traffic;
}

// The ranks of a mesh, with what those of a stage share made once.
class RankPlans {
 public:
  RankPlans(const Config& config, const MicroBatchTime& compute)
      : config_(config),
        compute_(compute),
        shape_(state_shape(config)),
        map_(config),
        stages_(reference_stages(config)) {
    for (std::size_t i = 0; i < stages_.size(); ++i) {
      activations_.push_back(activation_buffers(config, static_cast<std::int64_t>(i)));
    }
  }

  std::int64_t ranks() const { return map_.ranks(); }
  CallTally calls(std::int64_t rank) const {
    return engine_calls(config_, stages_[stage_of(rank)], compute_, rank);
  }

  StageMemory memory(std::int64_t rank, const CallTally& calls) const {
    const std::size_t stage = stage_of(rank);
    StageMemory memory;
    memory.stage = static_cast<std::int64_t>(stage);
    for (const StateBuffer& buffer :
         state_buffers(shape_, stages_[stage].units, map_.place(rank).dp)) {
      put(memory, buffer.tag, buffer.bytes * buffer.count);
    }
    for (const ActivationBuffer& buffer : activations_[stage]) {
      put(memory, buffer.tag, buffer.bytes);
    }
    add_run_buffers(memory);
    for (const GroupScratch& scratch : calls.scratch()) {
      put(memory, MemoryTag::kCommunication, static_cast<std::int64_t>(scratch.bytes));
    }
    return memory;
  }

 private:
  // The micro-batch being loaded, and what group "control" keeps.
  void add_run_buffers(StageMemory& memory) const {
    const SampleShape sample = sample_shape(config_.model);
    put(memory, MemoryTag::kData,
        4 * config_.train.micro_batch_size * (sample.inputs + sample.targets));
    const auto steps = static_cast<std::size_t>(std::max<std::int64_t>(config_.train.steps, 0));
    put(memory, MemoryTag::kCommunication,
        static_cast<std::int64_t>(collectives::ring_all_reduce_scratch(
            static_cast<std::size_t>(map_.ranks()), std::max(steps, kTotalsWords), 8)));
  }
  std::size_t stage_of(std::int64_t rank) const {
    return static_cast<std::size_t>(map_.place(rank).pp);
  }

  const Config& config_;
  const MicroBatchTime compute_;
  const StateShape shape_;
  const RankMap map_;
  const std::vector<ReferenceStage> stages_;
  std::vector<std::vector<ActivationBuffer>> activations_;
};

void keep_larger(std::vector<CallRow>& all, const CallRow& row) {
  const auto known = std::find_if(all.begin(), all.end(), [&](const CallRow& other) {
    return other.group == row.group && other.collective == row.collective;
  });
  if (known == all.end()) {
    all.push_back(row);
    return;
  }
  known->calls = std::max(known->calls, row.calls);
  known->bytes_sent = std::max(known->bytes_sent, row.bytes_sent);
  known->time_s = std::max(known->time_s, row.time_s);
  known->exposed_s = std::max(known->exposed_s, row.exposed_s);
}

// Sums on "control" in a step, on average: the totals, and what a search for stragglers costs.
double control_sums(const Config& config, std::size_t ranks) {
  if (config.guard.straggler_score == 0) return 1;
  return 1 + static_cast<double>(time_sums(ranks)) / static_cast<double>(config.guard.window);
}

// The sums of all ranks, once a step: a kilobyte, which no step waits for long enough to be unknown
// for want of a curve.
void add_control(const Config& config, CommunicationPlan& plan) {
  const auto ranks = static_cast<std::size_t>(config.parallel.ranks());
  if (ranks == 1) return;
  const Group all{"control", config.parallel.ranks(), 1};
  constexpr auto kCollective = collectives::Collective::kAllReduce;
  constexpr auto kAlgorithm = collectives::Algorithm::kRing;
  GroupTraffic row;
  row.group = all.name;
  row.collective = name(kCollective);
  row.algorithm = name(kAlgorithm);
  row.calls = control_sums(config, ranks);
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const auto sent =
        collectives::rank_traffic(kCollective, kAlgorithm, ranks, rank, kTotalsWords, 8).bytes_sent;
    row.bytes_sent_per_rank =
        std::max(row.bytes_sent_per_rank, row.calls * static_cast<double>(sent));
  }
  const CallTime time = call_time(config.cluster, all, kCollective, kAlgorithm, 8.0 * kTotalsWords);
  row.time_s = row.exposed_s = row.calls * time.seconds;
  row.time_known = time.known;
  plan.exposed_once_s += row.time_s;
  plan.traffic.push_back(std::move(row));
}

void take_calls(const std::vector<CallRow>& rows, CommunicationPlan& plan) {
  for (const CallRow& row : rows) {
    (row.in_micro_batches ? plan.exposed_in_micro_batches_s : plan.exposed_once_s) += row.exposed_s;
    plan.times_known = plan.times_known && row.time_known;
    plan.traffic.push_back(traffic_of(row));
  }
}

}  // namespace

StageMemory reference_memory(const Config& config, std::int64_t rank) {
  const RankPlans ranks(config, {});
  return ranks.memory(rank, ranks.calls(rank));
}

std::int64_t group_scratch_bytes(const Config& config, std::int64_t rank) {
  const CallTally calls = RankPlans(config, {}).calls(rank);
  std::int64_t bytes = 0;
  for (const GroupScratch& scratch : calls.scratch()) {
    bytes += static_cast<std::int64_t>(scratch.bytes);
  }
  return bytes;
}

std::vector<GroupTraffic> reference_traffic(const Config& config, std::int64_t rank) {
  std::vector<GroupTraffic> traffic;
  const CallTally calls = RankPlans(config, {}).calls(rank);
  for (const CallRow& row : calls.rows()) {
    traffic.push_back(traffic_of(row));
  }
  return traffic;
}

ReferencePlan plan_reference_engine(const Config& config, const MicroBatchTime& compute) {
  const RankPlans ranks(config, progress_has_cpu(config) ? compute : MicroBatchTime{});
  ReferencePlan plan;
  MemoryPlan& memory = plan.memory;
  memory.stages.resize(static_cast<std::size_t>(config.parallel.pp));
  std::vector<CallRow> rows;
  for (std::int64_t rank = 0; rank < ranks.ranks(); ++rank) {
    const CallTally calls = ranks.calls(rank);
    for (const CallRow& row : calls.rows()) keep_larger(rows, row);
    for (const Diagnostic& diagnostic : calls.diagnostics()) {
      add_once(diagnostic, plan.communication.diagnostics);
    }
    StageMemory own = ranks.memory(rank, calls);
    StageMemory& most = memory.stages[static_cast<std::size_t>(own.stage)];
    if (own.total_bytes > most.total_bytes) most = std::move(own);
  }
  take_calls(rows, plan.communication);
  add_control(config, plan.communication);
  const GradientChoice choice = choose_gradient_algorithm(config);
  if (choice.note) plan.communication.diagnostics.push_back(*choice.note);
  memory.limit_bytes = config.cluster.memory_bytes;
  for (const StageMemory& stage : memory.stages) {
    memory.worst_total_bytes = std::max(memory.worst_total_bytes, stage.total_bytes);
  }
  memory.fits = memory.limit_bytes <= 0 || memory.worst_total_bytes <= memory.limit_bytes;
  return plan;
}

}  // namespace nqd::planner
