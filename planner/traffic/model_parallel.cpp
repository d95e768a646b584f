#include <algorithm>
#include <cmath>

#include "planner/models/dimensions.h"
#include "planner/models/shape.h"
#include "planner/plan/memory.h"
#include "planner/plan/pipeline.h"
#include "planner/traffic/stage_traffic.h"

namespace nqd::planner {
namespace {

using collectives::Collective;

class ActivationTraffic {
 public:
  ActivationTraffic(const Config& config, const StageLayout& stage, TrafficRows& rows)
      : config_(config),
        stage_(stage),
        rows_(rows),
        sizes_(dimensions_of(config.model)),
        m_(static_cast<double>(micro_batches_of(config))) {}

  void add() {
    if (!stage_.tensors.empty()) {
      add_tensor_parallel();
      add_context_parallel();
      add_expert_parallel();
      add_pipeline();
    }
  }

 private:
  double element() const { return static_cast<double>(weight_bytes(config_.train)); }
  double layers() const { return static_cast<double>(stage_.layers); }

  // Tokens of one micro-batch on one cp rank.
  double tokens() const {
    return std::ceil(static_cast<double>(config_.train.micro_batch_size * sizes_.tokens) /
                     static_cast<double>(config_.parallel.cp));
  }

  // b·s·h of one micro-batch, of one cp rank.
  double boundary_elements() const { return tokens() * static_cast<double>(sizes_.hidden); }

  // Adds equal calls that hide behind nothing.
  void add_calls(const Group& group, Collective collective, double elements, double calls) {
    const Call call{collective, elements, element()};
    const double time = rows_.seconds(group, call);
    rows_.add(group, {call}, m_ * calls, time, m_ * calls * time, true);
  }

  void add_tensor_parallel() {
    const Group group = tp_group(config_.parallel);
    if (group.size <= 1) return;
    const double a_layer = config_.train.recompute == Recompute::kFull ? 6 : 4;
    const double sums = a_layer * layers() + (stage_.first ? 1 : 0) + (stage_.last ? 1 : 0);
    const double elements = boundary_elements();
    if (!config_.parallel.sequence_parallel) {
      return add_calls(group, Collective::kAllReduce, elements, sums);
    }
    // The inputs that backward gathers again arrive while the gradient of the input is computed.
    const double again = 2 * layers();
    const Call call{Collective::kAllGather, elements, element()};
    const double gather = rows_.seconds(group, call);
    rows_.add(group, {call}, m_ * (sums + again), gather, m_ * sums * gather, true);
    add_calls(group, Collective::kReduceScatter, elements, sums);
  }

  // Keys and values go round the ring: forward cp − 1 times, backward again and with their
  // gradients (Liu, Zaharia and Abbeel, "Ring Attention", arXiv:2310.01889).
  void add_context_parallel() {
    const Group group = cp_group(config_.parallel);
    if (group.size <= 1) return;
    const auto split = static_cast<double>(std::min(config_.parallel.tp, sizes_.kv_heads));
    const double elements =
        std::ceil(tokens() * static_cast<double>(sizes_.keys + sizes_.values) / split);
    const double passes = config_.train.recompute == Recompute::kNone ? 3 : 4;
    add_calls(group, Collective::kSendRecv, elements,
              passes * static_cast<double>(group.size - 1) * layers());
  }

  // Tokens to their experts and back, forward and backward.
  void add_expert_parallel() {
    const MoeSpec& moe = config_.model.moe;
    const Group group = ep_group(config_.parallel);
    if (group.size <= 1 || moe.experts <= 0) return;
    double moe_layers = 0;
    for (const TensorSpec& tensor : stage_.tensors) {
      if (tensor.name.ends_with("router.weight")) ++moe_layers;
    }
    double dispatched = 0;
    for (const BlockShape& block : model_shape(config_.model, config_.train).kinds) {
      dispatched = std::max(dispatched, dispatched_elements(block, division_of(config_)));
    }
    const double elements =
        std::ceil(dispatched * static_cast<double>(config_.train.micro_batch_size));
    const double passes = config_.train.recompute == Recompute::kFull ? 6 : 4;
    add_calls(group, Collective::kAllToAll, elements, passes * moe_layers);
  }

  // Sends of the busiest stage: an inner stage forward and back for each of its v chunks; the chunk
  // at either end of the model has one neighbour only. With zb-v the first stage holds both ends,
  // and the last hands its first chunk to itself.
  void add_pipeline() {
    const Group group = pp_group(config_.parallel);
    if (group.size <= 1) return;
    const std::int64_t v = virtual_stages(config_.parallel);
    const bool folded = config_.parallel.schedule == Schedule::kZbV;
    const bool at_fold = folded && stage_.stage == config_.parallel.pp - 1;
    double sends = static_cast<double>(2 * v);
    if (folded ? stage_.first || at_fold : stage_.first || stage_.last) sends -= folded ? 2 : 1;
    double elements = boundary_elements();
    const bool scattered = config_.stack.scatter_messages && !config_.parallel.sequence_parallel;
    if (scattered) add_calls(tp_group(config_.parallel), Collective::kAllGather, elements, sends);
    if (scattered || config_.parallel.sequence_parallel) {
      elements = std::ceil(elements / static_cast<double>(config_.parallel.tp));
    }
    add_calls(group, Collective::kSendRecv, elements, sends);
    if (config_.model.tied_head && stage_.first != stage_.last) add_tied_embedding();
  }

  void add_tied_embedding() {
    Group group = pp_group(config_.parallel);
    group = {"embedding", 2, group.stride * (config_.parallel.pp - 1)};
    const TensorSpec& token = stage_.first ? stage_.tensors.front() : stage_.tensors.back();
    const Call call{Collective::kAllReduce, static_cast<double>(token.elements()),
                    static_cast<double>(gradient_bytes(config_.train))};
    const double time = rows_.seconds(group, call);
    rows_.add(group, {call}, 1, time, time, false);
  }

  const Config& config_;
  const StageLayout& stage_;
  TrafficRows& rows_;
  const Dimensions sizes_;
  const double m_;
};

}  // namespace

void add_model_parallel(const Config& config, const StageLayout& stage, TrafficRows& rows) {
  ActivationTraffic(config, stage, rows).add();
}

}  // namespace nqd::planner
