#include "cli/train_run.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <optional>
#include <utility>

#include "base/host.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/audit_table.h"
#include "cli/canary/canary_run.h"
#include "cli/progress.h"
#include "cli/stop_signals.h"
#include "engine/io/safetensors.h"
#include "engine/parallel/agree.h"
#include "engine/train/device_check.h"
#include "engine/train/preflight.h"
#include "engine/train/roll_back.h"
#include "engine/trainer.h"
#include "planner/layout/layout.h"
#include "planner/text.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

// Metrics lines and the evidence record of a step, with room for the envelope.
std::uint64_t needed_bytes(std::int64_t steps) {
  return (1u << 20) + static_cast<std::uint64_t>(steps) * 1024;
}

// World ranks that the error says are gone or silent.
std::vector<int> lost_ranks(const Error& error) {
  if (const auto* lost = dynamic_cast<const collectives::PeerLostError*>(&error)) {
    return {lost->lost_rank()};
  }
  if (const auto* late = dynamic_cast<const collectives::TimeoutError*>(&error)) {
    return late->waiting_for();
  }
  return {};
}

std::string lost_host(const Error& error) {
  if (const auto* lost = dynamic_cast<const collectives::PeerLostError*>(&error)) {
    return lost->host();
  }
  if (const auto* late = dynamic_cast<const collectives::TimeoutError*>(&error)) {
    return late->host();
  }
  return {};
}

// The rank that writes the evidence of a fault: the lowest survivor of a loss; who failed itself;
// the loud one where all failed alike. Nobody for an input that was refused: that is no run.
int writer_of(const Error& error, int own_rank) {
  constexpr int kNobody = -1;
  if (error.exit_code() != ExitCode::kFault) return kNobody;
  const auto* peer = dynamic_cast<const collectives::PeerLostError*>(&error);
  if (peer != nullptr && peer->failed()) return kNobody;
  const std::vector<int> lost = lost_ranks(error);
  if (lost.empty()) return error.quiet() ? kNobody : own_rank;
  int writer = 0;
  while (std::find(lost.begin(), lost.end(), writer) != lost.end()) ++writer;
  return writer;
}

// The step that was under way; a run that skips too many ends behind the last of them.
std::int64_t step_of(const Error& error, const engine::TrainResult& result) {
  if (result.steps.empty()) {
    return 1 +
           (result.roll_backs.empty() ? result.resumed_after : result.roll_backs.back().to_step);
  }
  return result.steps.back().step + (error.code() == "NQD4006" ? 0 : 1);
}

void announce(const collectives::Communicator& world, const planner::Plan& plan,
              const std::string& folder) {
  const planner::Config& config = plan.config;
  log::info(std::to_string(world.size()) + " ranks (" + std::string(world.backend()) + "), dp " +
            std::to_string(config.parallel.dp) + ", " + format_short(plan.parameters) +
            " parameters, " + std::to_string(config.train.global_batch_size) + " x " +
            std::to_string(config.model.sequence) + " tokens a step, " +
            std::to_string(config.train.steps) + " steps, output in " + folder);
}

std::string throughput_text(const engine::TrainResult& result, const planner::Config& config) {
  std::string text = format_short(result.tokens_per_s) + " tokens/s";
  if (result.mfu <= 0) return text;
  return text + ", MFU " + planner::percent(result.mfu) + " of " +
         std::to_string(engine::device_count(result.ranks)) + " x " +
         format_short(config.cluster.peak_flops) + "FLOP/s";
}

}  // namespace

TrainRun::TrainRun(const TrainRunOptions& options, const std::vector<std::string>& argv,
                   const planner::LoadedConfig& loaded, const planner::Plan& plan)
    : options_(options), argv_(argv), loaded_(loaded), plan_(plan) {}

void TrainRun::Shown::take_over(const engine::TrainResult& own) {
  const std::lock_guard lock(mutex);
  result.resumed_after = own.resumed_after;
  result.resumed_from = own.resumed_from;
}

std::string TrainRun::output_dir() const {
  if (!options_.output_dir.empty()) return options_.output_dir;
  return "runs/" + std::filesystem::path(loaded_.config.source).stem().string();
}

// Of a CPU rank those of the stage that needs most.
double TrainRun::host_bytes_of(int rank) const {
  if (options_.device == engine::DeviceKind::kCpu) return plan_.memory.worst_total_bytes;
  return engine::planned_memory_of(plan_.config, rank, options_.device).host_bytes;
}

engine::CheckpointOptions TrainRun::checkpoint_options() const {
  engine::CheckpointOptions options;
  const std::string& path = loaded_.config.checkpoint.path;
  options.folder = path.empty() ? std::filesystem::path(output_dir()) / "checkpoints"
                                : std::filesystem::path(path);
  if (!options_.resume.empty()) {
    options.resume =
        options_.resume == "auto" ? options.folder : std::filesystem::path(options_.resume);
  }
  for (const planner::ResolvedValue& value : loaded_.resolved) {
    options.values[value.path] = value.value;
  }
  options.allowed_changes = options_.allowed_changes;
  return options;
}

// Asked in the step behind those of `so_far`.
bool TrainRun::is_time_to_stop(const engine::TrainResult& so_far) const {
  const std::chrono::duration<double> since_start = std::chrono::steady_clock::now() - start_;
  const std::int64_t step =
      1 + (so_far.steps.empty() ? so_far.resumed_after : so_far.steps.back().step);
  return stop_signal_came() || (options_.max_s > 0 && since_start.count() >= options_.max_s) ||
         (options_.stop_after > 0 && step >= options_.stop_after);
}

reports::Envelope TrainRun::begin(const engine::TrainResult& result, int world_size) const {
  reports::Envelope envelope = reports::begin_envelope("train", argv_);
  envelope.started_at = started_at_;
  envelope.ended_at = reports::now_utc();
  envelope.config_path = loaded_.config.source;
  envelope.config_yaml = loaded_.resolved_yaml;
  envelope.resolved = loaded_.resolved;
  envelope.world_size_asked = static_cast<int>(loaded_.config.parallel.ranks());
  envelope.world_size_actual = world_size;
  envelope.backend = result.backend;
  envelope.ranks = result.ranks;
  return envelope;
}

TrainRun::Files TrainRun::open_files(const collectives::Communicator& world) const {
  Files files;
  files.data = std::make_unique<engine::TrainingData>(
      engine::open_training_data(loaded_.config, world.rank() == 0));
  if (!options_.init_weights.empty()) {
    files.initial =
        std::make_unique<engine::HuggingFaceWeights>(options_.init_weights, loaded_.config.model);
  }
  if (world.rank() != 0) return files;
  files.folder =
      std::make_unique<engine::RunFolder>(output_dir(), needed_bytes(loaded_.config.train.steps));
  files.checkpoints = engine::lock_checkpoints_of_run(checkpoint_options().folder,
                                                      loaded_.config.checkpoint.durable_path);
  files.evidence = std::make_unique<AtomicFile>(files.folder->evidence_path());
  if (!options_.export_weights.empty()) {
    files.exported = std::make_unique<engine::HuggingFaceExport>(
        options_.export_weights, loaded_.config.model, options_.export_type);
  }
  if (!options_.save_weights.empty()) {
    std::vector<engine::SafetensorsWriter::Entry> entries;
    for (const planner::TensorSpec& tensor : planner::parameters(loaded_.config.model)) {
      entries.push_back({tensor.name, tensor.shape});
    }
    files.saved = std::make_unique<engine::SafetensorsWriter>(options_.save_weights, entries,
                                                              DType::kFloat32);
  }
  return files;
}

void TrainRun::run_rank(collectives::Communicator& world) {
  Files files;
  engine::attempt_together(world, [&] {
    engine::check_host_memory(host_bytes_of(world.rank()), read_host_info(),
                              collectives::ranks_on_this_host(world),
                              "use a smaller micro_batch_size, a smaller model, or fewer ranks");
    files = open_files(world);
    if (world.rank() == 0) announce(world, plan_, output_dir());
  });
  if (options_.canary) {
    const planner::ClusterSpec& cluster = loaded_.config.cluster;
    const bool calibrated = !cluster.calibration_source.empty();
    refuse_slow(world,
                calibrated ? engine::canary_expectation(cluster.curves, cluster.gemm_flops,
                                                        cluster.memory_bandwidth_bytes_per_s,
                                                        cluster.calibration_source)
                           : engine::CanaryExpectation{},
                argv_, (std::filesystem::path(output_dir()) / "canary.json").string());
  }
  engine::TrainResult result;
  Shown of_thread;
  // Of ranks that are threads, rank 0 speaks for the process.
  Shown& shown = world.backend() == "local" && world.rank() != 0 ? of_thread : process_;
  try {
    run_engine(world, files, shown, result);
  } catch (const Error& error) {
    files.evidence.reset();
    shown.take_over(result);
    write_fault_evidence(error, shown);
    throw;
  }
  if (!result.audit_ok) audit_ok_ = false;
  if (world.rank() == 0) finish(result, world.size(), files);
}

void TrainRun::run_engine(collectives::Communicator& world, const Files& files, Shown& shown,
                          engine::TrainResult& result) {
  engine::RunFolder* const folder = files.folder.get();
  {
    const std::lock_guard lock(shown.mutex);
    shown.rank = world.rank();
    shown.world_size = world.size();
    shown.result.backend = world.backend();
    shown.running = true;
  }
  std::optional<Progress> progress;
  if (folder != nullptr) progress.emplace(loaded_.config.train.steps, std::chrono::seconds(5));
  engine::TrainOptions options;
  options.on_step = [&](const engine::StepRecord& step) {
    {
      const std::lock_guard lock(shown.mutex);
      shown.result.steps.push_back(step);
      shown.result.skipped_steps += step.skipped ? 1 : 0;
      shown.result.ranks = result.ranks;
      shown.result.backend = result.backend;
    }
    if (folder == nullptr) return;
    if (!result.resumed_from.empty()) folder->continue_after(result.resumed_after);
    folder->append_metrics(reports::metrics_line(step));
    progress->step(step);
  };
  options.on_eval = [&](const engine::EvalRecord& eval) {
    {
      const std::lock_guard lock(shown.mutex);
      shown.result.evals.push_back(eval);
      shown.result.ranks = result.ranks;
      shown.result.backend = result.backend;
    }
    if (folder == nullptr) return;
    if (!result.resumed_from.empty()) folder->continue_after(result.resumed_after);
    folder->append_metrics(reports::metrics_line(eval));
    progress->evaluation(eval);
  };
  options.on_roll_back = [&](const engine::RollBackRecord& roll_back) {
    {
      const std::lock_guard lock(shown.mutex);
      engine::note_roll_back(shown.result, roll_back);
    }
    if (folder != nullptr) folder->append_metrics(reports::metrics_line(roll_back));
  };
  if (files.initial) {
    options.initial_weights = [&](const planner::TensorSpec& tensor, std::int64_t begin,
                                  std::span<float> out) {
      files.initial->fill(tensor, begin, out);
    };
  }
  if (!options_.export_weights.empty() || !options_.save_weights.empty()) {
    options.on_weights = [&](const std::string& name, std::span<const float> values) {
      if (files.exported) files.exported->append(name, values);
      if (files.saved) files.saved->append(values);
    };
  }
  options.checkpoints = checkpoint_options();
  options.asked_to_stop = [&] { return is_time_to_stop(result); };
  options.deadline_s = options_.deadline_s;
  options.device = options_.device;
  options.step_graph = options_.step_graph;
  options.messages = options_.messages;
  options.last_words = [this](const Error& error) { last_words(error); };
  engine::train(world, plan_, *files.data, options, result);
  if (result.stopped) stopped_ = true;
  const std::lock_guard lock(shown.mutex);
  shown.running = false;
}

void TrainRun::finish(const engine::TrainResult& result, int world_size, const Files& files) const {
  const std::string document =
      reports::train_json(begin(result, world_size), result, result.replanned.value_or(plan_));
  files.evidence->write(document);
  files.evidence->commit();
  std::cerr << audit_table(result);
  if (result.tokens_per_s > 0) log::info(throughput_text(result, loaded_.config));
  const auto skipped = std::count_if(result.steps.begin(), result.steps.end(),
                                     [](const engine::StepRecord& step) { return step.skipped; });
  if (skipped > 0) {
    log::warn(std::to_string(skipped) + " of " + std::to_string(result.steps.size()) +
              " steps were skipped: they did not change the weights");
  }
  log::info("evidence in " + files.evidence->path().string());
  if (files.exported) {
    files.exported->commit();
    log::info("weights in " + options_.export_weights);
  }
  if (files.saved) {
    files.saved->commit();
    log::info("weights in " + options_.save_weights);
  }
  if (options_.json) std::cout << document;
}

void TrainRun::last_words(const Error& error) noexcept {
  try {
    write_fault_evidence(error, process_);
  } catch (...) {
    // The process is about to end over the first failure, which has been reported.
  }
}

void TrainRun::write_fault_evidence(const Error& error, Shown& shown) const {
  const std::lock_guard lock(shown.mutex);
  if (!shown.running || shown.fault_written || shown.rank != writer_of(error, shown.rank)) return;
  shown.fault_written = true;
  const std::vector<int> lost = lost_ranks(error);
  const std::chrono::duration<double> since_start = std::chrono::steady_clock::now() - start_;
  engine::FaultRecord fault;
  fault.code = error.code();
  fault.message = error.what();
  fault.lost_rank = lost.empty() ? -1 : lost.front();
  fault.lost_host = lost_host(error);
  fault.at_step = step_of(error, shown.result);
  fault.detected_s = since_start.count();
  shown.result.fault = fault;
  shown.result.audit_ok = false;
  try {
    engine::remove_unfinished_evidence(output_dir());
    write_file(std::filesystem::path(output_dir()) / "evidence.json",
               reports::train_json(begin(shown.result, shown.world_size), shown.result,
                                   shown.result.replanned.value_or(plan_)));
  } catch (const Error& second) {
    // The first failure is the one to report; the disk may be what failed.
    log::warn(std::string("the fault could not be recorded: ") + second.what());
  }
}

}  // namespace nqd::cli
