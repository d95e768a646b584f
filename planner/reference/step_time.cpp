#include "planner/reference/step_time.h"

#include <algorithm>
#include <cstdlib>
#include <span>
#include <string>

#include "planner/plan/pipeline.h"
#include "planner/reference/traffic.h"
#include "planner/reference/work.h"
#include "planner/schedule/simulate.h"

namespace nqd::planner {
namespace {

Diagnostic unknown_kernels(const std::vector<Kernel>& missing) {
  std::string names;
  for (const Kernel kernel : missing) {
    names += (names.empty() ? "" : ", ") + std::string(name(kernel));
  }
  Diagnostic note;
  note.code = "NQD1306";
  note.severity = Severity::kNote;
  note.path = "cluster.engine_rates";
  note.message = "the step time is unknown, because the calibration has no rate of " + names;
  note.hint = "run `nqd bench engine` on this config, and `nqd calibrate` with its document too";
  return note;
}

Diagnostic other_ranks(std::int64_t measured, std::int64_t asked) {
  Diagnostic warning;
  warning.code = "NQD1305";
  warning.severity = Severity::kWarning;
  warning.path = "cluster.engine_rates";
  warning.message = "the engine's rates were measured with " + std::to_string(measured) +
                    " ranks of a host at work, not with " + std::to_string(asked) +
                    ", which share its memory and caches";
  warning.hint = "measure it: mpirun -n " + std::to_string(asked) + " nqd bench engine CONFIG";
  return warning;
}

// Exposed seconds of a step's messages between stages, and of one of them.
struct Messages {
  double all_s = 0;
  double one_s = 0;
};

Messages messages_of(const CommunicationPlan& communication) {
  Messages messages;
  for (const GroupTraffic& row : communication.traffic) {
    if (row.group != "pp" || row.calls <= 0) continue;
    messages.all_s += row.exposed_s;
    messages.one_s = std::max(messages.one_s, row.time_s / row.calls);
  }
  return messages;
}

double busiest_stage(const ScheduleSpec& spec, const std::vector<PhaseTimes>& chunks) {
  std::vector<double> stages(static_cast<std::size_t>(spec.stages));
  for (std::size_t chunk = 0; chunk < chunks.size(); ++chunk) {
    const std::int64_t stage = stage_of_chunk(spec, static_cast<std::int64_t>(chunk));
    stages[static_cast<std::size_t>(stage)] += chunks[chunk].total();
  }
  return static_cast<double>(spec.micro_batches) * *std::max_element(stages.begin(), stages.end());
}

}  // namespace

std::int64_t ranks_on_host(const Config& config) {
  return std::min(config.parallel.ranks(), std::max<std::int64_t>(config.cluster.gpus_per_node, 1));
}

const EngineRates* engine_rates(const Config& config) {
  const std::int64_t ranks = ranks_on_host(config);
  const EngineRates* best = nullptr;
  for (const EngineRates& rates : config.cluster.engine_rates) {
    if (rates.numerics != config.numerics.mode || rates.precision != config.train.precision ||
        rates.threads != config.train.threads) {
      continue;
    }
    const bool nearer =
        best == nullptr || std::llabs(rates.ranks - ranks) < std::llabs(best->ranks - ranks);
    if (nearer) best = &rates;
  }
  return best;
}

bool progress_has_cpu(const Config& config) {
  const EngineRates* rates = engine_rates(config);
  if (rates == nullptr || rates->cpus == 0) return true;
  return rates->cpus >= ranks_on_host(config) * (config.train.threads + 1);
}

double kernel_seconds(const EngineRates& rates, const std::vector<KernelCall>& calls, bool causal,
                      std::vector<Kernel>& missing) {
  double seconds = 0;
  for (const KernelCall& call : calls) {
    const auto rate =
        std::find_if(rates.kernels.begin(), rates.kernels.end(),
                     [&](const KernelRate& known) { return known.kernel == name(call.kernel); });
    if (rate == rates.kernels.end()) {
      if (std::find(missing.begin(), missing.end(), call.kernel) == missing.end()) {
        missing.push_back(call.kernel);
      }
      continue;
    }
    const KernelCost cost = cost_of(call, causal);
    seconds += call.calls * (rate->item_s * cost.items + rate->unit_s * cost.units);
  }
  return rates.in_place * seconds;
}

ReferenceTime reference_time(const Config& config) {
  const EngineRates* measured = engine_rates(config);
  const EngineRates rates =
      measured != nullptr ? *measured : assumed_rates(config.cluster, config.train.precision);
  ReferenceTime time;
  std::vector<Kernel> missing;
  const auto seconds = [&](const std::vector<KernelCall>& calls) {
    return kernel_seconds(rates, calls, config.model.causal, missing);
  };
  time.chunks.resize(static_cast<std::size_t>(chunk_count(schedule_spec(config))));
  for (const ReferenceStage& stage : reference_stages(config)) {
    MicroBatchTime of_stage;
    const std::span<const LocalUnit> units(stage.units);
    for (const ReferenceStage::Chunk& chunk : stage.chunks) {
      const UnitWork work = chunk_work(config, units.subspan(chunk.begin, chunk.end - chunk.begin));
      const PhaseTimes phases{seconds(work.forward), seconds(work.backward_input),
                              seconds(work.backward_weight)};
      time.chunks[static_cast<std::size_t>(chunk.chunk)] = phases;
      of_stage.forward_s += phases.forward;
      of_stage.backward_s += phases.backward_input + phases.backward_weight;
    }
    if (of_stage.forward_s + of_stage.backward_s >
        time.slowest.forward_s + time.slowest.backward_s) {
      time.slowest = of_stage;
    }
    time.optimizer_s = std::max(time.optimizer_s, seconds(update_work(config, units)));
  }
  if (!missing.empty()) time.diagnostics.push_back(unknown_kernels(missing));
  if (measured != nullptr && measured->ranks != ranks_on_host(config)) {
    time.diagnostics.push_back(other_ranks(measured->ranks, ranks_on_host(config)));
  }
  time.known = missing.empty();
  return time;
}

TimePlan plan_reference_time(const Config& config, const ReferenceTime& compute,
                             const CommunicationPlan& communication) {
  const ScheduleSpec spec = schedule_spec(config);
  const Messages messages = messages_of(communication);
  const double in_actions_s = communication.exposed_in_micro_batches_s - messages.all_s;
  // Of one action's forward or backward.
  const double each_s =
      in_actions_s / static_cast<double>(2 * spec.micro_batches * spec.virtual_stages);
  PipelineTimes times;
  times.chunks = compute.chunks;
  for (PhaseTimes& chunk : times.chunks) {
    chunk.forward += each_s;
    chunk.backward_input += each_s;
  }
  TimePlan time;
  time.compute_s = busiest_stage(spec, compute.chunks);
  double all_s = busiest_stage(spec, times.chunks);
  double with_messages_s = all_s;
  if (spec.stages > 1) {
    const PipelineSchedule schedule = make_schedule(spec);
    all_s = simulate_pipeline(schedule, times).makespan_s;
    times.message_s = messages.one_s;
    with_messages_s = simulate_pipeline(schedule, times).makespan_s;
  }
  time.bubble_s = std::max(0.0, all_s - time.compute_s - in_actions_s);
  time.exposed_communication_s =
      in_actions_s + (with_messages_s - all_s) + communication.exposed_once_s;
  time.optimizer_s = compute.optimizer_s;
  time.step_s = time.compute_s + time.bubble_s + time.exposed_communication_s + time.optimizer_s;
  const auto tokens = static_cast<double>(config.train.global_batch_size * config.model.sequence);
  time.tokens_per_s = time.step_s > 0 ? tokens / time.step_s : 0;
  return time;
}

}  // namespace nqd::planner
