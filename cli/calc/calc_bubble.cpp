// `nqd calc bubble`.
#include <array>
#include <memory>

#include "cli/calc/calc.h"
#include "planner/plan/pipeline.h"
#include "planner/schedule/closed_form.h"

namespace nqd::cli {
namespace {

using planner::Schedule;
using planner::ScheduleSpec;

constexpr std::array kSchedules = {Schedule::kGPipe, Schedule::k1F1B, Schedule::kInterleaved,
                                   Schedule::kZbH1,  Schedule::kZbH2, Schedule::kZbV};

struct Options {
  std::string schedule = "1f1b";
  std::int64_t stages = 1;
  std::int64_t micro_batches = 1;
  std::int64_t virtual_stages = 0;
  std::optional<double> target;
};

ScheduleSpec spec_of(const Options& options) {
  ScheduleSpec spec;
  for (const Schedule schedule : kSchedules) {
    if (options.schedule == name(schedule)) spec.schedule = schedule;
  }
  const bool two = spec.schedule == Schedule::kInterleaved || spec.schedule == Schedule::kZbV;
  spec.stages = options.stages;
  spec.micro_batches = options.micro_batches;
  spec.virtual_stages = options.virtual_stages > 0 ? options.virtual_stages : (two ? 2 : 1);
  return spec;
}

// The closed form and its numbers; zero-bubble schedules whose weight gradients fill all gaps have
// none to show.
std::pair<std::string, std::string> form(const ScheduleSpec& spec) {
  const std::string idle = std::to_string(spec.stages - 1);
  const std::string m = std::to_string(spec.micro_batches);
  switch (spec.schedule) {
    case Schedule::kGPipe:
    case Schedule::k1F1B:
      return {"(p−1)/(m+p−1)", idle + "/(" + m + "+" + idle + ")"};
    case Schedule::kInterleaved:
      return {"(p−1)/(v·m+p−1)",
              idle + "/(" + std::to_string(spec.virtual_stages) + "·" + m + "+" + idle + ")"};
    case Schedule::kZbH1:
      if (spec.micro_batches < spec.stages) return {};
      return {"(p−1)/(3m+p−1)", idle + "/(3·" + m + "+" + idle + ")"};
    case Schedule::kZbH2:
    case Schedule::kZbV:
      return {};
  }
  return {};
}

CalcReport compute(const Options& options) {
  const ScheduleSpec spec = spec_of(options);
  require_legal(spec);
  CalcReport report;
  report.inputs = {{"schedule", options.schedule},
                   {"stages", spec.stages},
                   {"micro_batches", spec.micro_batches},
                   {"virtual_stages", spec.virtual_stages}};
  const auto [formula, numbers] = form(spec);
  report.figures.push_back({"bubble_fraction", "share of the step that a stage waits",
                            bubble_fraction(spec), Unit::kFraction, formula, numbers});
  if (options.target) {
    if (*options.target >= 1) {
      throw_mismatch("--target is a share of the step below 1", "write it as 0.1 or 10%");
    }
    report.inputs.emplace_back("target", *options.target);
    report.figures.push_back(
        {"micro_batches_for_target",
         "micro-batches for at most " + print_quantity(*options.target, Unit::kFraction),
         micro_batches_for_bubble(spec, *options.target)});
  }
  if (planner::splits_backward(spec.schedule)) {
    report.notes.push_back("Forward and both halves of the backward taken as equally long.");
  }
  return report;
}

}  // namespace

void add_calc_bubble(CLI::App& calc, Context& context) {
  auto options = std::make_shared<Options>();
  std::vector<std::string> schedules;
  for (const Schedule schedule : kSchedules) schedules.emplace_back(name(schedule));
  Calculation bubble(calc, "bubble", "Share of a step that pipeline stages wait");
  bubble.count("-p,--stages", options->stages, "p, pipeline stages")
      .required()
      .count("-m,--micro-batches", options->micro_batches, "m of one step")
      .required()
      .count("-v,--virtual-stages", options->virtual_stages,
             "v, chunks a stage holds [2 for interleaved and zb-v, else 1]")
      .choice("--schedule", options->schedule, schedules, "order of the passes")
      .quantity("--target", options->target, Unit::kFraction,
                "also the micro-batches for a bubble of at most this share")
      .computes(context, [options] { return compute(*options); });
}

}  // namespace nqd::cli
