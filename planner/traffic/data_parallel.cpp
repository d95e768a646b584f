#include <algorithm>
#include <cmath>
#include <map>
#include <utility>

#include "planner/plan/memory.h"
#include "planner/plan/pipeline.h"
#include "planner/traffic/stage_traffic.h"

namespace nqd::planner {
namespace {

using collectives::Collective;

// The rows of one part of a stage's weights: all ranks of `group` hold copies of it.
class GradientTraffic {
 public:
  // hsdp shards over `shard` ranks of the group.
  GradientTraffic(const Config& config, const StageLayout& part, Group group, std::int64_t shard,
                  const MicroBatchTime& compute, TrafficRows& rows)
      : config_(config),
        part_(part),
        group_(std::move(group)),
        shard_(shard),
        compute_(compute),
        rows_(rows),
        m_(static_cast<double>(micro_batches_of(config))) {}

  void add() {
    switch (config_.parallel.engine) {
      case Engine::kDdp:
        return add_bucketed(Collective::kAllReduce, 1);
      case Engine::kZero1:
        add_bucketed(Collective::kReduceScatter, 1);
        return add_weight_gather();
      case Engine::kZero2:
        add_bucketed(Collective::kReduceScatter, m_);
        return add_weight_gather();
      case Engine::kZero3:
        return add_sharded_units(group_);
      case Engine::kHsdp:
        return add_hybrid();
    }
  }

 private:
  double gradient_element() const { return static_cast<double>(gradient_bytes(config_.train)); }
  double weight_element() const { return static_cast<double>(weight_bytes(config_.train)); }

  // Bucket i is ready once backward has passed the elements from its begin on.
  void add_bucketed(Collective collective, double repeats) {
    std::vector<Call> calls;
    std::vector<CallRun> runs;
    for (const BucketRun& run : stage_buckets(config_, part_)) {
      const auto count = static_cast<double>(run.count);
      const auto buckets = static_cast<double>(run.buckets);
      const double last = 1 - static_cast<double>(run.begin) / part_.parameters;
      const double first = last - (buckets - 1) * count / part_.parameters;
      calls.push_back({collective, count, gradient_element(), buckets});
      runs.push_back({first, last, buckets, rows_.seconds(group_, calls.back())});
    }
    rows_.add(group_, calls, repeats, rows_.seconds(group_, calls),
              repeats * exposed_seconds(runs, compute_.backward_s), repeats > 1);
  }

  // Updated weights, after the optimizer: nothing is left to hide behind.
  void add_weight_gather() {
    std::vector<Call> calls;
    for (const BucketRun& run : stage_buckets(config_, part_)) {
      calls.push_back({Collective::kAllGather, static_cast<double>(run.count), weight_element(),
                       static_cast<double>(run.buckets)});
    }
    const double time = rows_.seconds(group_, calls);
    rows_.add(group_, calls, 1, time, time, false);
  }

  // A model without layers is one unit: it has no inner boundaries that we know of.
  std::vector<double> units() const {
    return part_.units.empty() ? std::vector<double>{part_.parameters} : part_.units;
  }

  // The first gather of forward and the last reduction of backward stand alone; the rest hide
  // behind the compute of their pass as far as it lasts. Backward gathers and reduces over one
  // network; what sticks out there is booked on the reductions, which come last, as far as they
  // last, and the rest on the gathers that held them up.
  void add_sharded_units(const Group& group) {
    std::vector<Call> gathers;
    std::vector<Call> reductions;
    for (double elements : units()) {
      gathers.push_back({Collective::kAllGather, elements, weight_element()});
      reductions.push_back({Collective::kReduceScatter, elements, gradient_element()});
    }
    const double gather = rows_.seconds(group, gathers);
    const double reduce = rows_.seconds(group, reductions);
    const double alone = rows_.seconds(group, gathers.front());
    const double forward = alone + std::max(0.0, gather - alone - compute_.forward_s);
    const double last = rows_.seconds(group, reductions.front());
    const double backward = last + std::max(0.0, gather + reduce - last - compute_.backward_s);
    const double reduce_exposed = std::min(reduce, backward);
    const double gather_exposed = std::min(2 * gather, forward + backward - reduce_exposed);
    rows_.add(group, gathers, 2 * m_, gather, m_ * gather_exposed, true);
    rows_.add(group, reductions, m_, reduce, m_ * reduce_exposed, true);
  }

  void add_hybrid() {
    Group inner = group_;
    Group outer = group_;
    inner.name = group_.name + "_shard";
    inner.size = shard_;
    outer.name = group_.name + "_replicate";
    outer.size = group_.size / shard_;
    outer.stride = inner.stride * shard_;
    add_sharded_units(inner);
    if (outer.size <= 1) return;
    std::vector<Call> calls;
    std::vector<CallRun> runs;
    double done = 0;
    const std::vector<double> forward_units = units();
    for (auto unit = forward_units.rbegin(); unit != forward_units.rend(); ++unit) {
      done += *unit;
      calls.push_back({Collective::kAllReduce, std::ceil(*unit / static_cast<double>(shard_)),
                       gradient_element()});
      const double ready = done / part_.parameters;
      runs.push_back({ready, ready, 1, rows_.seconds(outer, calls.back())});
    }
    rows_.add(outer, calls, 1, rows_.seconds(outer, calls),
              exposed_seconds(runs, compute_.backward_s), false);
  }

  const Config& config_;
  const StageLayout& part_;
  const Group group_;
  const std::int64_t shard_;
  const MicroBatchTime& compute_;
  TrafficRows& rows_;
  const double m_;
};

// The stage with its routed experts alone, or without them.
StageLayout part_of(const StageLayout& stage, bool experts) {
  StageLayout part = stage;
  part.tensors.clear();
  part.units.clear();
  part.parameters = 0;
  std::map<std::int64_t, double> units;
  for (const TensorSpec& tensor : stage.tensors) {
    if ((tensor.split == TensorSplit::kExpert) != experts) continue;
    part.tensors.push_back(tensor);
    const auto elements = static_cast<double>(tensor.elements());
    units[tensor.unit] += elements;
    part.parameters += elements;
  }
  for (const auto& [unit, elements] : units) part.units.push_back(elements);
  return part;
}

}  // namespace

void add_data_parallel(const Config& config, const StageLayout& stage,
                       const MicroBatchTime& compute, TrafficRows& rows) {
  const Group dense = gradient_group(config.parallel);
  const Group experts = expert_dp_group(config.parallel);
  const std::int64_t dense_shard = shard_counts(config).weights;
  const std::int64_t expert_shard = expert_shard_counts(config, candidate_of(config)).weights;
  const bool routed =
      config.model.moe.experts > 0 && !stage.tensors.empty() && experts.size != dense.size;
  if (!routed) {
    if (dense.size > 1) GradientTraffic(config, stage, dense, dense_shard, compute, rows).add();
    return;
  }
  for (const bool expert : {false, true}) {
    const Group& group = expert ? experts : dense;
    const StageLayout part = part_of(stage, expert);
    if (group.size <= 1 || part.tensors.empty()) continue;
    const std::int64_t shard = expert ? expert_shard : dense_shard;
    GradientTraffic(config, part, group, shard, compute, rows).add();
  }
}

}  // namespace nqd::planner
