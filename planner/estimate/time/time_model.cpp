#include "planner/estimate/time_model.h"

#include <algorithm>
#include <cmath>
#include <unordered_map>

#include "planner/estimate/time/block_time.h"
#include "planner/fabric.h"
#include "planner/models/shape.h"
#include "planner/stages.h"

namespace nqd::planner {
namespace {

double soft_max(double a, double b, double q) {
  if (b <= 0) return a;
  if (a <= 0) return b;
  const double top = std::max(a, b);
  const double ratio = std::min(a, b) / top;
  if (ratio < 1e-2) return top;
  return top * std::pow(1 + std::pow(ratio, q), 1 / q);
}

}  // namespace

struct TimeModel::Impl {
  explicit Impl(const Config& base)
      : config(base), shape(model_shape(base.model, base.train)), pricer(config, shape) {}

  Config config;
  ModelShape shape;
  BlockPricer pricer;
  std::vector<BlockTime> blocks;

  struct StageTime {
    double forward_s = 0, backward_s = 0, weight_s = 0, host_s = 0, exposed_s = 0, device_s = 0;
    double parameters = 0, expert_parameters = 0;
    double total() const { return forward_s + backward_s; }
  };

  std::int64_t layers_of(std::int64_t stage, const Candidate& c, std::int64_t layers) const {
    const auto& split = config.parallel.pipeline_split;
    std::int64_t sum = 0;
    for (std::int64_t j = 0; j < c.vpp; ++j) {
      const std::int64_t chunk = stage + j * c.pp;
      if (!split.empty()) {
        sum += split[static_cast<std::size_t>(chunk)];
      } else {
        const std::int64_t n = std::int64_t{c.pp} * c.vpp;
        sum += layers / n + (chunk < layers % n ? 1 : 0);
      }
    }
    return sum;
  }

  StageTime stage_time(const BlockTime& work, const Candidate& c) const {
    const StackSpec& stack = config.stack;
    StageTime t;
    double f = work.forward.device_s + work.forward.exposed_s();
    double b = work.backward.device_s + work.backward.exposed_s();
    if (c.engine == Engine::kZero3 || c.engine == Engine::kHsdp ||
        (c.engine == Engine::kZero2 && config.train.runtime == Runtime::kFsdp2)) {
      const ClusterSpec& cluster = config.cluster;
      const std::int64_t group = std::int64_t{c.dp} * c.cp;
      const LinearCost gather = all_gather_cost(cluster, place(cluster, group, c.tp), 1);
      const double bytes = work.parameters * 2;
      const double reduce = work.parameters * static_cast<double>(gradient_bytes(config.train));
      const double scale = 1 / stack.sharded_share;
      const double one = scale * gather.s_per_byte;
      const double gf = one * bytes;
      const double gb = one * ((c.engine == Engine::kZero2 ? 0 : bytes) + reduce);
      const double layers = static_cast<double>(config.model.layers) / c.pp;
      f = soft_max(f, gf, stack.sharded_sharpness) + gf / layers;
      b = soft_max(b, gb, stack.sharded_sharpness) + gb / layers / 2;
    }
    t.device_s = f + b;
    t.forward_s = soft_max(f, work.forward.host_s, stack.host_sharpness);
    t.backward_s = soft_max(b, work.backward.host_s, stack.host_sharpness);
    t.host_s = t.forward_s + t.backward_s - f - b;
    t.weight_s = work.weight_s;
    t.parameters = work.parameters;
    t.expert_parameters = work.expert_parameters;
    return t;
  }

  StepTime step(const Candidate& c) {
    StepTime out;
    const StackSpec& stack = config.stack;
    const ClusterSpec& cluster = config.cluster;
    blocks.resize(shape.kinds.size());
    pricer.price({c.tp, c.cp, c.ep, c.micro_batch_size, c.recompute, c.sequence_parallel},
                 blocks.data());
    double m = c.micro_batches;
    double v = c.vpp;
    StageTime worst;
    double sum = 0, params = 0, weights = 0;
    for (std::int64_t i = 0; i < c.pp; ++i) {
      BlockTime work;
      const std::int64_t layers = layers_of(i, c, config.model.layers);
      {
        const std::int64_t dense = shape.runs[1].count;
        // dense layers come first
        std::int64_t nd = layers;
        if (shape.kinds.size() > 3)
          nd = std::min<std::int64_t>(layers, std::max<std::int64_t>(0, dense - i * layers));
        if (config.model.moe.experts > 0 && config.model.moe.dense_layers == 0) nd = layers;
        work.add(blocks[1], static_cast<double>(nd));
        if (nd < layers) work.add(blocks[2], static_cast<double>(layers - nd));
      }
      if (i == 0) work.add(blocks[0], 1);
      if (i == c.pp - 1) work.add(blocks[static_cast<std::size_t>(shape.head)], 1);
      StageTime t = stage_time(work, c);
      sum += t.total();
      weights += t.weight_s;
      params = std::max(params, work.parameters);
      if (t.total() > worst.total()) worst = t;
    }
    const double others = sum - worst.total();
    const std::int64_t pp_stride = config.parallel.order == MeshOrder::kPpThenDp
                                       ? std::int64_t{c.tp} * c.cp
                                       : std::int64_t{c.tp} * c.cp * c.dp;
    const bool crosses = c.pp > 1 && !place(cluster, c.pp, pp_stride).inside();
    double slot = stack.host_micro_batch_s;
    if (c.pp > 1) slot += v * stack.host_boundary_s;
    if (crosses && c.schedule != Schedule::kZbH2) slot += v * cluster.fabric.slot_latency_s;
    double bubble = others / v;
    if (c.schedule == Schedule::kZbH1)
      bubble = std::max(0.0, others - (weights - worst.weight_s) * 2);
    if (c.schedule == Schedule::kZbH2)
      bubble = std::max(0.0, others - (weights - worst.weight_s) * 3);
    // data parallel
    const double gbytes = static_cast<double>(gradient_bytes(config.train));
    double dp_s = 0;
    double shards = 1;
    const std::int64_t group = std::int64_t{c.dp} * c.cp;
    if (group > 1 && c.engine <= Engine::kZero1) {
      const Placement where = place(cluster, group, c.tp);
      const LinearCost cost = all_reduce_cost(cluster, where, cluster.fabric.gradient_share);
      const double bytes = c.engine == Engine::kZero1 ? params * (gbytes + 2) / 2 : params * gbytes;
      dp_s = cost.seconds(bytes) * stack.data_exposed;
    }
    if (c.engine != Engine::kDdp) shards = static_cast<double>(group);
    double emb = 0;
    if (c.pp > 1 && shape.tied_elements > 0) {
      emb = all_reduce_cost(cluster, place(cluster, 2, pp_stride * (c.pp - 1)),
                            cluster.fabric.gradient_share)
                .seconds(shape.tied_elements / c.tp * gbytes);
    }
    out.compute_s = m * (worst.total() + slot);
    out.bubble_s = bubble;
    out.exposed_s = dp_s + emb;
    out.optimizer_s = stack.optimizer_bytes * params / shards /
                          (cluster.device.memory_share * cluster.memory_bandwidth_bytes_per_s) +
                      stack.host_step_s;
    const double before = out.compute_s + out.bubble_s + out.exposed_s + out.optimizer_s;
    const double nodes = std::max(1.0, double(c.dp) * c.tp * c.pp * c.cp / cluster.gpus_per_node);
    out.jitter_s = before * cluster.fabric.straggler_growth * std::log2(nodes);
    out.step_s = before + out.jitter_s;
    out.known = true;
    return out;
  }
};

TimeModel::TimeModel(const Config& base) : impl_(std::make_unique<Impl>(base)) {}
TimeModel::~TimeModel() = default;
TimeModel::TimeModel(TimeModel&&) noexcept = default;
TimeModel& TimeModel::operator=(TimeModel&&) noexcept = default;
StepTime TimeModel::step(const Candidate& candidate) { return impl_->step(candidate); }

}  // namespace nqd::planner
