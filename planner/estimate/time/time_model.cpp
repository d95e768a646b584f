#include "planner/estimate/time_model.h"

#include <algorithm>
#include <cmath>
#include <vector>

#include "planner/estimate/time/block_memo.h"
#include "planner/estimate/time/block_time.h"
#include "planner/estimate/time/exchange.h"
#include "planner/estimate/time/stage_kinds.h"
#include "planner/mesh/fabric.h"
#include "planner/mesh/stages.h"
#include "planner/models/shape.h"
#include "planner/plan/memory.h"
#include "planner/schedule/closed_form.h"

namespace nqd::planner {
namespace {

// Moved a parameter by an optimizer on the host, in float32: gradient, weight and two moments read,
// weight and moments written.
constexpr double kHostOptimizerBytes = 28;

// (a^q + b^q)^(1/q).
double soft_max(double a, double b, double q) {
  const double most = std::max(a, b);
  const double least = std::min(a, b);
  // Beyond this ratio the smaller one adds less than a millionth for q >= 2.
  if (least <= 1e-3 * most) return most;
  return most * std::pow(1 + std::pow(least / most, q), 1 / q);
}

// Seconds of one micro-batch on one stage.
struct StageTime {
  PhaseTimes phases;
  double tensor_s = 0;  // exposed parts of `phases`
  double context_s = 0;
  double expert_s = 0;
  double sharded_s = 0;
  double host_s = 0;
  ShardedPasses sharded;
  BlockTime work;

  double exposed_s() const { return tensor_s + context_s + expert_s + sharded_s; }
};

// The stages of a candidate.
struct StageTimes {
  StageTime slowest;
  StageShare slowest_share;
  PhaseTimes others;   // sums over all but the slowest
  BlockTime heaviest;  // the stage with the most parameters
};

// An interleaved pipeline with unequal virtual stages, of one micro-batch.
struct RowTimes {
  double paced_s = 0;     // of all rows, each at the pace of its slowest or of the row before
  double messages_s = 0;  // of a step, what no slack hides
};

PhaseTimes sum(const PhaseTimes& a, const PhaseTimes& b, double times) {
  return {a.forward + times * b.forward, a.backward_input + times * b.backward_input,
          a.backward_weight + times * b.backward_weight};
}

GroupTime& of(StepTime& time, CommGroup group) {
  return time.groups[static_cast<std::size_t>(group)];
}

}  // namespace

struct TimeModel::Impl {
  explicit Impl(const Config& base)
      : config(base),
        shape(model_shape(base.model, base.train)),
        pricer(config, shape),
        memo(shape.kinds.size()),
        stages(config, shape) {}

  Impl(const Impl&) = delete;
  Impl& operator=(const Impl&) = delete;

  StepTime step(const Candidate& c);
  SlotTimes slot(const Candidate& c, std::int32_t stage, std::int32_t chunk);

  const BlockTime* blocks_of(const Candidate& c) { return memo.find(pricer.key_of(c), pricer); }
  BlockTime work_of(const BlockTime* blocks, const StageShare& share) const;
  StageTime stage_time(const BlockTime& work, const Candidate& c, const Ranks& ranks, double layers,
                       double visits) const;
  StageTimes stage_times(const Candidate& c, const Ranks& ranks, const BlockTime* blocks);
  double slot_wait_s(const Candidate& c, const Ranks& ranks) const;
  RowTimes row_times(const Candidate& c, const BlockTime* blocks, const StageTime& slowest,
                     double message_s);
  void add_pipeline(const Candidate& c, const Ranks& ranks, const BlockTime* blocks,
                    const StageTimes& times, StepTime& out);
  double message_s(const Candidate& c, const Ranks& ranks) const;
  void add_once(const Candidate& c, const Ranks& ranks, const BlockTime& heaviest,
                StepTime& out) const;
  double optimizer_s(const Candidate& c, const BlockTime& heaviest) const;

  Config config;
  ModelShape shape;
  BlockPricer pricer;
  BlockMemo memo;
  StageKinds stages;
};

BlockTime TimeModel::Impl::work_of(const BlockTime* blocks, const StageShare& share) const {
  BlockTime work;
  const auto add = [&](std::int64_t kind, double times) {
    if (kind >= 0 && times > 0) work.add(blocks[kind], times);
  };
  if (!is_transformer(config.model)) {
    for (const BlockRun& run : shape.runs) add(run.kind, static_cast<double>(run.count));
    return work;
  }
  add(stages.dense_kind(), static_cast<double>(share.dense));
  add(stages.moe_kind(), static_cast<double>(share.moe));
  if (share.first) add(shape.embedding, 1);
  if (share.last) {
    add(shape.mtp, static_cast<double>(config.model.mtp_layers));
    add(shape.head, 1);
  }
  return work;
}

// A pass takes the soft maximum of the device's time, with the communication that it waits for, and
// the host's. Gathers of sharded weights hide behind it but for one layer's, the first, in each of
// the visits of a micro-batch (one for every virtual stage in `work`).
StageTime TimeModel::Impl::stage_time(const BlockTime& work, const Candidate& c, const Ranks& ranks,
                                      double layers, double visits) const {
  const StackSpec& stack = config.stack;
  StageTime time;
  time.work = work;
  if (gathers_weights(config, c)) {
    time.sharded = sharded_passes(config, c, ranks, work.parameters, work.expert_parameters,
                                  std::max(1.0, layers));
  }
  const auto pass = [&](const PassTime& one, double sharded_s) {
    const double device = one.device_s + one.exposed_s();
    double busy = device;
    if (sharded_s > 0) {
      busy = soft_max(device, sharded_s, stack.sharded_sharpness) +
             visits * sharded_s / std::max(visits, layers);
    }
    const double total = soft_max(busy, one.host_s, stack.host_sharpness);
    time.tensor_s += one.tensor_s;
    time.context_s += one.context_s;
    time.expert_s += one.expert_s;
    time.sharded_s += busy - device;
    time.host_s += total - busy;
    return total;
  };
  time.phases.forward = pass(work.forward, time.sharded.forward_s);
  const double backward = pass(work.backward, time.sharded.backward_s);
  time.phases.backward_weight = std::min(work.weight_s, backward);
  time.phases.backward_input = backward - time.phases.backward_weight;
  return time;
}

// What a micro-batch waits for around a stage whose neighbours are on other nodes. zb-h2 has enough
// micro-batches under way to hide it.
double TimeModel::Impl::slot_wait_s(const Candidate& c, const Ranks& ranks) const {
  if (c.pp <= 1) return 0;
  const double latency = ranks.stages.inside() || c.schedule == Schedule::kZbH2
                             ? 0
                             : config.cluster.fabric.slot_latency_s;
  return c.vpp * (config.stack.host_boundary_s + latency);
}

// Of a message from stage to stage, what the wait of its slot does not cover.
double TimeModel::Impl::message_s(const Candidate& c, const Ranks& ranks) const {
  if (c.pp <= 1) return 0;
  const std::size_t kind = static_cast<std::size_t>(std::max<std::int64_t>(0, shape.embedding));
  const double elements = shape.kinds[kind].output_elements * c.micro_batch_size / c.cp;
  const bool scattered = config.stack.scatter_messages && !c.sequence_parallel && c.tp > 1;
  double message =
      boundary_s(config, ranks, scattered || c.sequence_parallel ? elements / c.tp : elements);
  if (scattered) {
    message += all_gather_cost(config.cluster, place(config.cluster, c.tp, 1),
                               config.cluster.fabric.network_share)
                   .seconds(elements * static_cast<double>(weight_bytes(config.train)));
  }
  return std::max(0.0, message - slot_wait_s(c, ranks) / (2 * c.vpp));
}

double TimeModel::Impl::optimizer_s(const Candidate& c, const BlockTime& heaviest) const {
  double parameters = heaviest.parameters;
  double experts = heaviest.expert_parameters;
  if (c.engine != Engine::kDdp) {
    parameters /= static_cast<double>(shard_counts(config, c).optimizer);
    experts /= static_cast<double>(expert_shard_counts(config, c).optimizer);
  }
  const double elements = parameters + experts;
  if (!config.train.optimizer.offload) {
    return config.stack.optimizer_bytes * elements / pricer.memory_rate() +
           config.stack.host_step_s;
  }
  // Gradients go to the host, its processor updates float32 state, new weights come back; one after
  // the other (Ren et al., ZeRO-Offload, arXiv:2101.06840).
  const FabricConstants& fabric = config.cluster.fabric;
  const auto moved = static_cast<double>(gradient_bytes(config.train) + weight_bytes(config.train));
  return elements * (moved / fabric.host_link_bandwidth +
                     kHostOptimizerBytes / fabric.host_memory_bandwidth) +
         config.stack.host_step_s;
}

// What comes once a step.
void TimeModel::Impl::add_once(const Candidate& c, const Ranks& ranks, const BlockTime& heaviest,
                               StepTime& out) const {
  const double reduce =
      gradient_exchange_s(config, c, ranks, heaviest.parameters, heaviest.expert_parameters);
  GroupTime& dp = of(out, CommGroup::kDp);
  dp.time_s += reduce;
  dp.exposed_s += reduce * config.stack.data_exposed;
  if (gathers_weights(config, c) && c.engine != Engine::kHsdp) {
    // More bytes over the same links: no less is left over than of an all_reduce.
    Candidate whole = c;
    whole.engine = Engine::kDdp;
    const double plain =
        gradient_exchange_s(config, whole, ranks, heaviest.parameters, heaviest.expert_parameters);
    dp.exposed_s = std::max(dp.exposed_s, plain * config.stack.data_exposed);
  }
  // zero2 has no room for whole gradients: it scatters those of every micro-batch, each behind the
  // backward of the next.
  const double earlier =
      (c.micro_batches - 1) *
      eager_scatter_s(config, c, ranks, heaviest.parameters, heaviest.expert_parameters);
  dp.time_s += earlier;
  dp.exposed_s += std::max(0.0, earlier - (c.micro_batches - 1) * out.backward_s);
  const double ends = embedding_exchange_s(config, c, ranks, shape.tied_elements);
  of(out, CommGroup::kEmbedding) = {ends, ends};
  out.optimizer_s = optimizer_s(c, heaviest);
}

StageTimes TimeModel::Impl::stage_times(const Candidate& c, const Ranks& ranks,
                                        const BlockTime* blocks) {
  StageTimes times;
  for (const StageKind& kind : stages.of(c)) {
    const BlockTime work = work_of(blocks, kind.share);
    const StageTime time =
        stage_time(work, c, ranks, static_cast<double>(kind.share.layers()), c.vpp);
    times.others = sum(times.others, time.phases, static_cast<double>(kind.count));
    if (time.phases.total() > times.slowest.phases.total()) {
      times.slowest = time;
      times.slowest_share = kind.share;
    }
    const double weights = work.parameters + work.expert_parameters;
    const BlockTime& most = times.heaviest;
    if (weights > most.parameters + most.expert_parameters) times.heaviest = work;
  }
  times.others = sum(times.others, times.slowest.phases, -1);
  return times;
}

// Virtual stages of one row take turns, so that a row is as slow as its slowest, and the row after
// a slow one gets its micro-batches no faster. The others have slack in which their messages
// travel. A virtual stage takes of the slowest stage's seconds what it has of its work.
RowTimes TimeModel::Impl::row_times(const Candidate& c, const BlockTime* blocks,
                                    const StageTime& slowest, double message_s) {
  RowTimes rows;
  const double rate = slowest.phases.total() / slowest.work.device_s();
  double before = 0;
  for (const ChunkRow& row : stages.uneven_rows(c)) {
    double longest = 0;
    double all = 0;
    for (const StageKind& chunk : row.chunks) {
      const double seconds = rate * work_of(blocks, chunk.share).device_s();
      longest = std::max(longest, seconds);
      all += static_cast<double>(chunk.count) * seconds;
    }
    const auto count = static_cast<double>(row.count);
    // Of its p micro-batches the last finds the row before done.
    rows.paced_s += count * longest + std::max(0.0, before - longest) * (c.pp - 1) / c.pp;
    rows.messages_s += count * std::max(0.0, c.pp * (2 * message_s - longest) + all);
    before = longest;
  }
  return rows;
}

// The bubble, and messages as far as something waits for them.
void TimeModel::Impl::add_pipeline(const Candidate& c, const Ranks& ranks, const BlockTime* blocks,
                                   const StageTimes& times, StepTime& out) {
  if (c.pp <= 1) return;
  const double m = c.micro_batches;
  const double rest = c.pp - 1;
  const PhaseTimes& slowest = times.slowest.phases;
  // Whoever fills or drains the pipeline also waits around each micro-batch on its way.
  const double wait = slot_wait_s(c, ranks);
  const double around = (config.stack.host_micro_batch_s + wait) / 2;
  const PhaseTimes others = sum(times.others, {around, around, 0}, rest);
  const PhaseTimes waiting = sum(slowest, {around, around, 0}, 1);
  const ScheduleSpec spec{c.schedule, c.pp, c.micro_batches, c.vpp};
  double bubble = step_seconds(spec, waiting, others) - m * waiting.total();
  if (c.schedule == Schedule::kZbV && times.slowest_share.first) {
    const PhaseTimes head = stage_time(work_of(blocks, {0, 0, false, true}), c, ranks, 1, 1).phases;
    bubble = folded_wait_seconds(spec, waiting, head, others);
  }
  const double message = message_s(c, ranks);
  double exposed = exposed_message_seconds(spec, message, waiting.total() - others.total() / rest);
  if (!stages.uneven_rows(c).empty()) {
    const RowTimes rows = row_times(c, blocks, times.slowest, message);
    bubble += m * (rows.paced_s - slowest.total());
    exposed = rows.messages_s;
  }
  out.bubble_s = std::max(0.0, bubble);
  // The link may also take longer for a micro-batch's messages than a stage computes.
  const double sends = 2.0 * c.vpp * message;
  const double link = m * std::max(0.0, sends - slowest.total());
  of(out, CommGroup::kPp) = {m * (wait + sends),
                             m * wait + std::max(link, exposed + std::min(0.0, bubble))};
}

StepTime TimeModel::Impl::step(const Candidate& c) {
  StepTime out;
  if (!shape.known || !pricer.known()) return out;
  const BlockTime* blocks = blocks_of(c);
  const Ranks ranks = ranks_of(config, c, expert_tp_of(config.parallel, c.tp));
  const double m = c.micro_batches;
  const StageTimes times = stage_times(c, ranks, blocks);
  const StageTime& slowest = times.slowest;

  const auto add = [&](CommGroup group, double busy, double exposed) {
    of(out, group) = {m * busy, m * exposed};
  };
  const PassTime& forward = slowest.work.forward;
  const PassTime& backward = slowest.work.backward;
  add(CommGroup::kTp, forward.tensor_busy_s + backward.tensor_busy_s, slowest.tensor_s);
  add(CommGroup::kCp, forward.context_busy_s + backward.context_busy_s, slowest.context_s);
  add(CommGroup::kEp, forward.expert_busy_s + backward.expert_busy_s, slowest.expert_s);
  add(CommGroup::kDp, slowest.sharded.forward_s + slowest.sharded.backward_s, slowest.sharded_s);
  add_pipeline(c, ranks, blocks, times, out);
  out.forward_s = slowest.phases.forward;
  out.backward_s = slowest.phases.total() - slowest.phases.forward;
  add_once(c, ranks, times.heaviest, out);

  out.host_s = m * (slowest.host_s + config.stack.host_micro_batch_s);
  out.compute_s =
      m * (slowest.phases.total() - slowest.exposed_s() + config.stack.host_micro_batch_s);
  for (const GroupTime& group : out.groups) out.exposed_s += group.exposed_s;
  const double steady = out.compute_s + out.exposed_s + out.bubble_s + out.optimizer_s;
  const double nodes = static_cast<double>(c.dp) * c.tp * c.cp * c.pp /
                       static_cast<double>(config.cluster.gpus_per_node);
  out.jitter_s = steady * config.cluster.fabric.straggler_growth * std::log2(std::max(1.0, nodes));
  out.step_s = steady + out.jitter_s;
  out.known = std::isfinite(out.step_s);
  return out.known ? out : StepTime{};
}

TimeModel::SlotTimes TimeModel::Impl::slot(const Candidate& c, std::int32_t stage,
                                           std::int32_t chunk) {
  if (!shape.known || !pricer.known()) return {};
  const Ranks ranks = ranks_of(config, c, expert_tp_of(config.parallel, c.tp));
  const StageShare share = stages.chunk(c, stage, chunk);
  const StageTime time =
      stage_time(work_of(blocks_of(c), share), c, ranks, static_cast<double>(share.layers()), 1);
  // A micro-batch's waits are spread over its chunks, half in each direction.
  const double around = (config.stack.host_micro_batch_s + slot_wait_s(c, ranks)) / c.vpp / 2;
  return {time.phases.forward + around, time.phases.backward_input + around,
          time.phases.backward_weight, message_s(c, ranks)};
}

TimeModel::TimeModel(const Config& base) : impl_(std::make_unique<Impl>(base)) {}
TimeModel::~TimeModel() = default;
TimeModel::TimeModel(TimeModel&&) noexcept = default;
TimeModel& TimeModel::operator=(TimeModel&&) noexcept = default;

StepTime TimeModel::step(const Candidate& candidate) { return impl_->step(candidate); }

TimeModel::SlotTimes TimeModel::slot(const Candidate& candidate, std::int32_t stage,
                                     std::int32_t chunk) {
  return impl_->slot(candidate, stage, chunk);
}

}  // namespace nqd::planner
