#include "planner/search/detail.h"

#include <algorithm>
#include <array>
#include <utility>

#include "base/units.h"
#include "planner/estimate/memory_model.h"
#include "planner/plan/memory.h"
#include "planner/plan/time.h"
#include "planner/schedule/simulate.h"
#include "planner/search/search.h"
#include "planner/text.h"

namespace nqd::planner::search {
namespace {

constexpr std::int64_t kMostActions = 10'000'000;

// Of one pipeline, from event to event.
double simulated_pipeline_s(const Candidate& c, TimeModel& model) {
  const ScheduleSpec spec{c.schedule, c.pp, c.micro_batches, c.vpp};
  PipelineTimes times;
  for (std::int64_t chunk = 0; chunk < chunk_count(spec); ++chunk) {
    const auto stage = static_cast<std::int32_t>(stage_of_chunk(spec, chunk));
    // The chunks of a stage count from 0, in the order of the model's layers.
    const auto of_stage = static_cast<std::int32_t>(chunk / spec.stages);
    const TimeModel::SlotTimes slot = model.slot(c, stage, of_stage);
    times.chunks.push_back({slot.forward_s, slot.backward_input_s, slot.backward_weight_s});
    times.message_s = slot.send_s;
  }
  return simulate_pipeline(make_schedule(spec), times).step_s;
}

std::optional<double> simulated_step_s(const Config& config, const Candidate& c,
                                       const StepTime& time, TimeModel& model) {
  const std::int64_t actions = std::int64_t{3} * c.micro_batches * c.pp * c.vpp;
  if (!time.known || actions > kMostActions) return std::nullopt;
  // What the closed form says of the same events: slots of the slowest stage, what they wait for,
  // and the bubble. The rest comes once a step; stragglers stretch all of it.
  const double slot_s = time.forward_s + time.backward_s + config.stack.host_micro_batch_s;
  const GroupTime& messages = time.groups[static_cast<std::size_t>(CommGroup::kPp)];
  const double closed_s = c.micro_batches * slot_s + messages.exposed_s + time.bubble_s;
  const double steady_s = time.step_s - time.jitter_s;
  return (steady_s - closed_s + simulated_pipeline_s(c, model)) * (time.step_s / steady_s);
}

struct Part {
  const char* name;
  double seconds;
};

// Parts of a step that leave nothing out and count nothing twice, largest first.
std::array<Part, 5> parts_of(const StepTime& time) {
  std::array<Part, 5> parts = {{{"compute", time.compute_s},
                                {"exposed communication", time.exposed_s},
                                {"pipeline bubble", time.bubble_s},
                                {"optimizer", time.optimizer_s},
                                {"stragglers", time.jitter_s}}};
  std::stable_sort(parts.begin(), parts.end(),
                   [](const Part& a, const Part& b) { return a.seconds > b.seconds; });
  return parts;
}

}  // namespace

Detail detail_of(const Config& config, const Score& score, double limit_bytes, bool simulate) {
  const Candidate& candidate = score.candidate;
  const Config planned = config_of(config, candidate);
  Detail detail;
  detail.score = score;
  detail.limit_bytes = limit_bytes;
  MemoryModel memory(planned);
  detail.worst = worst_stage(memory.stages(candidate));
  TimeModel model(planned);
  detail.time = model.step(candidate);
  if (!detail.time.known) return detail;
  if (simulate) detail.simulated_step_s = simulated_step_s(planned, candidate, detail.time, model);
  const double step_s = detail.time.step_s;
  detail.samples_per_s = static_cast<double>(planned.train.global_batch_size) / step_s;
  detail.tokens_per_s = detail.samples_per_s * static_cast<double>(planned.model.sequence);
  detail.mfu = utilisation(
      planned, detail.samples_per_s * sample_flops(planned.model, Recompute::kNone).model);
  const auto gpus = static_cast<double>(score.gpus());
  detail.cost_per_step = planned.cluster.price_per_gpu_hour * gpus * step_s / 3600;
  return detail;
}

std::string binding_text(const Detail& detail) {
  std::string text;
  if (detail.time.known) {
    const std::array<Part, 5> parts = parts_of(detail.time);
    text = std::string(parts[0].name) + " is " + percent(parts[0].seconds / detail.time.step_s) +
           " of the step, " + parts[1].name + " " + percent(parts[1].seconds / detail.time.step_s) +
           "; ";
  }
  const std::string largest = dominant_category(detail.worst);
  text += "stage " + std::to_string(detail.worst.stage) + " holds " +
          format_bytes(detail.worst.total_bytes);
  if (detail.limit_bytes > 0) {
    text += ", " + percent(detail.worst.total_bytes / detail.limit_bytes) + " of the limit";
  }
  return text + ", mostly " + largest + " (" + format_bytes(detail.worst.categories.at(largest)) +
         ")";
}

std::string mesh_text(const Candidate& c) {
  std::string text = "tp " + std::to_string(c.tp) + " · pp " + std::to_string(c.pp) + " · dp " +
                     std::to_string(c.dp);
  const auto add = [&](const char* name, std::int32_t value) {
    if (value > 1) text += std::string(" · ") + name + " " + std::to_string(value);
  };
  add("cp", c.cp);
  add("ep", c.ep);
  add("vpp", c.vpp);
  return text;
}

}  // namespace nqd::planner::search
