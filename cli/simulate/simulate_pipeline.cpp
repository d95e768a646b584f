// `nqd simulate pipeline`: a schedule event by event, as text, JSON or a trace.
#include <sys/ioctl.h>
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/command.h"
#include "cli/simulate/pipeline_output.h"
#include "cli/simulate/simulate.h"
#include "planner/config/read_value.h"
#include "planner/schedule/timeline_text.h"
#include "reports/output.h"

namespace nqd::cli {
namespace {

using planner::PhaseTimes;
using planner::PipelineTimes;
using planner::Schedule;
using planner::ScheduleSpec;

constexpr std::array kSchedules = {Schedule::kGPipe, Schedule::k1F1B, Schedule::kInterleaved,
                                   Schedule::kZbH1,  Schedule::kZbH2, Schedule::kZbV};
constexpr int kWidthOfAFile = 100;

struct Options {
  std::string schedule = "1f1b";
  std::int64_t stages = 0;
  std::int64_t micro_batches = 0;
  std::optional<std::int64_t> virtual_stages;
  // Durations as written, empty when not given.
  std::string forward, backward, backward_weight, stage_times, message;
  std::string trace;
  int width = 0;  // 0 = the terminal's
  bool json = false;
};

std::vector<std::string> schedule_names() {
  std::vector<std::string> names;
  for (const Schedule schedule : kSchedules) names.emplace_back(name(schedule));
  return names;
}

ScheduleSpec spec_of(const Options& options) {
  ScheduleSpec spec;
  spec.schedule = *std::find_if(kSchedules.begin(), kSchedules.end(), [&](Schedule schedule) {
    return name(schedule) == options.schedule;
  });
  spec.stages = options.stages;
  spec.micro_batches = options.micro_batches;
  const bool two = spec.schedule == Schedule::kInterleaved || spec.schedule == Schedule::kZbV;
  spec.virtual_stages = options.virtual_stages.value_or(two ? 2 : 1);
  return spec;
}

// Seconds of `text`, or `otherwise` when it is empty.
double seconds_of(const std::string& flag, std::string_view text, double otherwise) {
  if (text.empty()) return otherwise;
  std::optional<double> value = planner::parse_number(text);
  if (!value) value = planner::parse_quantity(planner::Kind::kSeconds, text);
  if (value && *value >= 0 && *value <= 1e9) return *value;
  throw Error(ExitCode::kUsage, "NQD1013",
              flag + ": \"" + std::string(text) + "\" is not a duration of 0 to 10^9 seconds",
              "write seconds, or a number with a unit: 0.003, 3ms, 250us");
}

// By default a backward takes two forwards, half of it for the weights.
PhaseTimes phase_times(const std::string& flag, std::string_view forward, std::string_view backward,
                       std::string_view weight) {
  const double forward_s = seconds_of(flag, forward, 1);
  const double backward_s = seconds_of(flag, backward, 2 * forward_s);
  const double weight_s = seconds_of(flag, weight, backward_s / 2);
  if (weight_s <= backward_s) return {forward_s, backward_s - weight_s, weight_s};
  throw CLI::ValidationError(
      flag, "the weight gradient is a part of the backward, so it cannot take longer");
}

// Parts of `text` between any of `separators`; empty parts are left out.
std::vector<std::string> split(const std::string& text, const char* separators) {
  std::vector<std::string> parts;
  std::size_t from = 0;
  while ((from = text.find_first_not_of(separators, from)) != std::string::npos) {
    const std::size_t to = std::min(text.find_first_of(separators, from), text.size());
    parts.push_back(text.substr(from, to - from));
    from = to;
  }
  return parts;
}

std::vector<PhaseTimes> read_stage_times(const std::string& argument) {
  std::string text = argument;
  if (std::filesystem::exists(argument)) {
    text.clear();
    for (const std::string& line : split(read_file(argument), "\r\n")) {
      text += line.substr(0, line.find('#')) + " ";
    }
  }
  std::vector<PhaseTimes> times;
  for (const std::string& entry : split(text, ", \t")) {
    std::vector<std::string> parts = split(entry, ":");
    if (parts.size() < 2 || parts.size() > 3) {
      throw CLI::ValidationError("--stage-times",
                                 "\"" + entry +
                                     "\" is neither FORWARD:BACKWARD nor FORWARD:BACKWARD:WEIGHT, "
                                     "nor a file of them");
    }
    parts.resize(3);
    times.push_back(phase_times("--stage-times", parts[0], parts[1], parts[2]));
  }
  return times;
}

PipelineTimes times_of(const Options& options, const ScheduleSpec& spec) {
  const double message_s = seconds_of("--p2p", options.message, 0);
  if (options.stage_times.empty()) {
    const PhaseTimes stage = phase_times("--forward/--backward/--backward-weight", options.forward,
                                         options.backward, options.backward_weight);
    return equal_times(spec, stage, message_s);
  }
  const std::vector<PhaseTimes> listed = read_stage_times(options.stage_times);
  const auto chunks = static_cast<std::size_t>(chunk_count(spec));
  if (listed.size() == chunks) return {listed, message_s};
  if (listed.size() != static_cast<std::size_t>(spec.stages)) {
    const std::string by_chunk =
        spec.virtual_stages > 1 ? ", or one for each of the " + std::to_string(chunks) + " chunks"
                                : "";
    throw CLI::ValidationError(
        "--stage-times", std::to_string(listed.size()) + " entries; give one for each of the " +
                             std::to_string(spec.stages) + " stages" + by_chunk);
  }
  PipelineTimes times{{}, message_s};
  const auto v = static_cast<double>(spec.virtual_stages);
  for (std::int64_t chunk = 0; chunk < chunk_count(spec); ++chunk) {
    const PhaseTimes& stage = listed[static_cast<std::size_t>(stage_of_chunk(spec, chunk))];
    times.chunks.push_back(
        {stage.forward / v, stage.backward_input / v, stage.backward_weight / v});
  }
  return times;
}

int terminal_width() {
  winsize size{};
  if (::ioctl(STDOUT_FILENO, TIOCGWINSZ, &size) != 0 || size.ws_col == 0) return kWidthOfAFile;
  return size.ws_col;
}

void run(const Options& options) {
  const ScheduleSpec spec = spec_of(options);
  require_legal(spec);
  std::unique_ptr<AtomicFile> trace;
  if (!options.trace.empty()) {
    reports::check_output(options.trace, {options.stage_times},
                          "give the trace a name; --json prints to standard output", "--trace");
    trace = std::make_unique<AtomicFile>(options.trace);
  }
  const PipelineTimes times = times_of(options, spec);
  const SimulatedPipeline result{spec, simulate_pipeline(make_schedule(spec), times),
                                 closed_form_step_seconds(spec, times)};
  if (trace) {
    trace->write(pipeline_trace(result));
    trace->commit();
  }
  if (options.json) {
    std::cout << pipeline_json(result);
    return;
  }
  const int width = options.width > 0 ? options.width : terminal_width();
  std::cout << options.schedule << ", p = " << spec.stages << ", m = " << spec.micro_batches;
  if (spec.virtual_stages > 1) std::cout << ", v = " << spec.virtual_stages;
  std::cout << "\n\n"
            << render_timeline(spec, result.timeline, width) << '\n'
            << render_pipeline_summary(spec, result.timeline, result.closed_form_step_s);
}

void add_duration_flags(CLI::App& command, Options& options) {
  command
      .add_option("--forward", options.forward,
                  "forward of one micro-batch on one stage (1 s; units as 3ms are understood)")
      ->type_name("SECONDS");
  command
      .add_option("--backward", options.backward,
                  "backward of one micro-batch on one stage, both gradients (2 forwards)")
      ->type_name("SECONDS");
  command
      .add_option("--backward-weight", options.backward_weight,
                  "the part of --backward for the weights (half), which zb-* put off")
      ->type_name("SECONDS");
  command
      .add_option("--stage-times", options.stage_times,
                  "unequal stages: FORWARD:BACKWARD[:WEIGHT] for each stage, or each chunk in the "
                  "model's order, separated by commas or in a file")
      ->type_name("LIST|FILE")
      ->excludes("--forward")
      ->excludes("--backward")
      ->excludes("--backward-weight");
  command.add_option("--p2p", options.message, "time of a message between two stages (0 s)")
      ->type_name("SECONDS");
}

}  // namespace

void add_simulate_pipeline(CLI::App& simulate, Context& /*context*/) {
  auto options = std::make_shared<Options>();
  CLI::App* command = simulate.add_subcommand(
      "pipeline", "Run a pipeline schedule event by event: timeline, bubble, peak in flight");
  command->add_option("--schedule", options->schedule, "order of the stages' work")
      ->check(CLI::IsMember(schedule_names()))
      ->capture_default_str();
  command->add_option("-p,--stages", options->stages, "stages of the pipeline")->required();
  command->add_option("-m,--micro-batches", options->micro_batches, "micro-batches of a step")
      ->required();
  command->add_option("-v,--virtual-stages", options->virtual_stages,
                      "chunks of the model a stage holds (interleaved 2, zb-v 2, others 1)");
  add_duration_flags(*command, *options);
  command->add_option("--width", options->width, "columns of the text (the terminal's, else 100)")
      ->check(CLI::Range(40, 100'000))
      ->type_name("COLUMNS");
  command->add_flag("--json", options->json, "print JSON");
  command->add_option("--trace", options->trace, "also write a trace that Perfetto opens")
      ->type_name("FILE");
  command->footer(
      "Exit status: 0 simulated, 1 no such schedule exists (as interleaved with m no multiple of "
      "p), 2 usage.");
  command->callback([options] { run(*options); });
}

}  // namespace nqd::cli
