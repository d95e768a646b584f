#include "planner/estimate/time/exchange.h"

#include <algorithm>

#include "planner/mesh/stages.h"
#include "planner/plan/memory.h"

namespace nqd::planner {
namespace {

double gradient_share(const ClusterSpec& cluster, const Placement& group) {
  const bool shared = cluster.nics_per_node > 0 && cluster.nics_per_node < cluster.gpus_per_node;
  const bool meets = shared && group.together > 1 && !group.inside();
  return cluster.fabric.gradient_share * (meets ? cluster.fabric.shared_adapter_share : 1);
}

// Of a group's gradients.
ExchangeCost reduction_cost(const ClusterSpec& cluster, const Placement& group) {
  return all_reduce_cost(cluster, group, gradient_share(cluster, group));
}

}  // namespace

Ranks ranks_of(const Config& config, const Candidate& c, std::int64_t expert_tp) {
  const ClusterSpec& cluster = config.cluster;
  const std::int64_t tp = c.tp;
  const std::int64_t replica = tp * c.cp;
  const bool stages_first = config.parallel.order == MeshOrder::kPpThenDp;
  const std::int64_t dp_stride = stages_first ? replica * c.pp : replica;
  const std::int64_t pp_stride = stages_first ? replica : replica * c.dp;
  const std::int64_t copies = std::int64_t{c.dp} * c.cp;

  Ranks ranks;
  ranks.gradients = nested(cluster, c.cp, tp, c.dp, dp_stride);
  const std::int64_t expert_ranks = std::max<std::int64_t>(1, c.ep * expert_tp);
  ranks.expert_gradients =
      place_in_stage(cluster, std::max<std::int64_t>(1, copies * tp / expert_ranks), expert_ranks,
                     replica, dp_stride);
  const std::int64_t shard = c.engine == Engine::kHsdp ? shard_counts(config, c).weights : copies;
  ranks.shards = shard == copies ? ranks.gradients
                                 : Placement{shard, std::min(shard, ranks.gradients.together)};
  ranks.replicas = place(cluster, copies / shard, tp * shard);
  ranks.stages = place(cluster, c.pp, pp_stride);
  ranks.ends = place(cluster, c.pp > 1 ? 2 : 1, pp_stride * std::max(1, c.pp - 1));
  return ranks;
}

bool gathers_weights(const Config& config, const Candidate& c) {
  if (c.dp * c.cp <= 1) return false;
  return c.engine == Engine::kZero3 || c.engine == Engine::kHsdp ||
         (c.engine == Engine::kZero2 && config.train.runtime == Runtime::kFsdp2);
}

ShardedPasses sharded_passes(const Config& config, const Candidate& c, const Ranks& ranks,
                             double parameters, double expert_parameters, double layers) {
  const ExchangeCost cost =
      all_gather_cost(config.cluster, ranks.shards, config.stack.sharded_share);
  const double scatter_bytes = parameters * static_cast<double>(gradient_bytes(config.train));
  const double gather_bytes = parameters * static_cast<double>(weight_bytes(config.train));
  double gather = layers * cost.seconds(gather_bytes / layers);
  double scatter = layers * cost.seconds(scatter_bytes / layers);
  const std::int64_t expert_shard = expert_shard_counts(config, c).weights;
  if (expert_parameters > 0 && expert_shard > 1) {
    const Placement copies{expert_shard, std::min(expert_shard, ranks.expert_gradients.together)};
    const ExchangeCost experts =
        all_gather_cost(config.cluster, copies, config.stack.sharded_share);
    const double each = expert_parameters / layers;
    gather += layers * experts.seconds(each * static_cast<double>(weight_bytes(config.train)));
    scatter += layers * experts.seconds(each * static_cast<double>(gradient_bytes(config.train)));
  }
  // With a pipeline FSDP2 keeps weights and gradients whole from the first micro-batch to the last.
  const bool kept_whole = config.train.runtime == Runtime::kFsdp2 && c.pp > 1;
  const double share = kept_whole ? 1.0 / c.micro_batches : 1;
  const bool gathered_once = kept_whole || c.engine == Engine::kZero2;
  return {share * gather, share * (scatter + (gathered_once ? 0 : gather))};
}

double gradient_exchange_s(const Config& config, const Candidate& c, const Ranks& ranks,
                           double parameters, double expert_parameters) {
  const ClusterSpec& cluster = config.cluster;
  const auto gradient = static_cast<double>(gradient_bytes(config.train));
  const auto weight = static_cast<double>(weight_bytes(config.train));
  if (c.engine == Engine::kHsdp) {
    const std::int64_t shard = expert_shard_counts(config, c).weights;
    const Placement experts{ranks.expert_gradients.size / shard,
                            std::max<std::int64_t>(1, ranks.expert_gradients.together / shard)};
    return reduction_cost(cluster, ranks.replicas)
               .seconds(parameters / static_cast<double>(ranks.shards.size) * gradient) +
           reduction_cost(cluster, experts)
               .seconds(expert_parameters / static_cast<double>(shard) * gradient);
  }
  if (gathers_weights(config, c)) return 0;
  // A scatter of gradients and a gather of weights are half an all_reduce each.
  const double bytes = c.engine == Engine::kDdp ? gradient : (gradient + weight) / 2;
  return reduction_cost(cluster, ranks.gradients).seconds(parameters * bytes) +
         reduction_cost(cluster, ranks.expert_gradients).seconds(expert_parameters * bytes);
}

double eager_scatter_s(const Config& config, const Candidate& c, const Ranks& ranks,
                       double parameters, double expert_parameters) {
  if (c.engine != Engine::kZero2 || gathers_weights(config, c)) return 0;
  const ClusterSpec& cluster = config.cluster;
  const double half = static_cast<double>(gradient_bytes(config.train)) / 2;
  return reduction_cost(cluster, ranks.gradients).seconds(parameters * half) +
         reduction_cost(cluster, ranks.expert_gradients).seconds(expert_parameters * half);
}

double embedding_exchange_s(const Config& config, const Candidate& c, const Ranks& ranks,
                            double tied_elements) {
  // With zb-v both ends of the model are on one stage.
  if (c.pp <= 1 || tied_elements <= 0 || c.schedule == Schedule::kZbV) return 0;
  const ClusterSpec& cluster = config.cluster;
  return reduction_cost(cluster, ranks.ends)
      .seconds(tied_elements / c.tp * static_cast<double>(gradient_bytes(config.train)));
}

double boundary_s(const Config& config, const Ranks& ranks, double elements) {
  const ClusterSpec& cluster = config.cluster;
  const bool inside = ranks.stages.inside();
  const LinkSpec& link = inside ? cluster.intra_node : cluster.inter_node;
  const double share = inside ? cluster.fabric.scale_up_share : cluster.fabric.network_share;
  if (link.bandwidth_bytes_per_s <= 0) return 0;
  return link.alpha_s + elements * static_cast<double>(weight_bytes(config.train)) /
                            (share * link.bandwidth_bytes_per_s);
}

}  // namespace nqd::planner
