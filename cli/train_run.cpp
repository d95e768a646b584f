#include "cli/train_run.h"

#include <algorithm>
#include <filesystem>
#include <iostream>
#include <memory>
#include <utility>

#include "base/file.h"
#include "base/host.h"
#include "base/log.h"
#include "base/units.h"
#include "cli/audit_table.h"
#include "cli/progress.h"
#include "collectives/world.h"
#include "engine/gemm/gemm.h"
#include "engine/io/run_folder.h"
#include "engine/parallel/agree.h"
#include "engine/trainer.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

// Metrics lines and the evidence record of a step, with room for the envelope.
std::uint64_t needed_bytes(std::int64_t steps) {
  return (1u << 20) + static_cast<std::uint64_t>(steps) * 1024;
}

int ranks_on_this_host(const collectives::Communicator& world) {
  int here = 0;
  for (int rank = 0; rank < world.size(); ++rank) {
    here += world.host(rank) == world.host(world.rank()) ? 1 : 0;
  }
  return here;
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

void announce(const collectives::Communicator& world, const planner::Plan& plan,
              const std::string& folder) {
  const planner::Config& config = plan.config;
  log::info(std::to_string(world.size()) + " ranks (" + std::string(world.backend()) + "), dp " +
            std::to_string(config.parallel.dp) + ", " + format_short(plan.parameters) +
            " parameters, " + std::to_string(config.train.global_batch_size) + " x " +
            std::to_string(config.model.sequence) + " tokens a step, " +
            std::to_string(config.train.steps) + " steps, output in " + folder);
}

}  // namespace

TrainRun::TrainRun(const TrainRunOptions& options, const std::vector<std::string>& argv,
                   const planner::LoadedConfig& loaded, const planner::Plan& plan)
    : options_(options), argv_(argv), loaded_(loaded), plan_(plan) {}

std::string TrainRun::output_dir() const {
  if (!options_.output_dir.empty()) return options_.output_dir;
  return "runs/" + std::filesystem::path(loaded_.config.source).stem().string();
}

reports::Envelope TrainRun::begin(const collectives::Communicator& world) const {
  reports::Envelope envelope = reports::begin_envelope("train", argv_);
  envelope.started_at = started_at_;
  envelope.config_path = loaded_.config.source;
  envelope.config_yaml = loaded_.resolved_yaml;
  envelope.resolved = loaded_.resolved;
  envelope.world_size_asked = static_cast<int>(loaded_.config.parallel.ranks());
  envelope.world_size_actual = world.size();
  envelope.backend = world.backend();
  const engine::GemmLibrary gemm = engine::gemm_library();
  envelope.libraries.emplace_back("gemm", gemm.name + " " + gemm.version + " (" + gemm.core + ")");
  for (const collectives::BackendStatus& backend : collectives::backend_status()) {
    if (backend.available) envelope.libraries.emplace_back(backend.name, backend.detail);
  }
  return envelope;
}

void TrainRun::run_rank(collectives::Communicator& world) {
  std::unique_ptr<engine::RunFolder> folder;
  std::unique_ptr<AtomicFile> evidence;
  engine::attempt_together(world, [&] {
    engine::check_host_memory(plan_, read_host_info(), ranks_on_this_host(world));
    if (world.rank() != 0) return;
    folder =
        std::make_unique<engine::RunFolder>(output_dir(), needed_bytes(loaded_.config.train.steps));
    evidence = std::make_unique<AtomicFile>(folder->evidence_path());
    announce(world, plan_, output_dir());
  });
  engine::TrainResult result;
  {
    Progress progress(loaded_.config.train.steps, std::chrono::seconds(5));
    engine::TrainOptions options;
    options.on_step = [&](const engine::StepRecord& step) {
      folder->append_metrics(reports::metrics_line(step));
      progress.step(step);
    };
    options.on_eval = [&](const engine::EvalRecord& eval) {
      folder->append_metrics(reports::metrics_line(eval));
      progress.evaluation(eval);
    };
    try {
      engine::train(world, plan_, options, result);
    } catch (const Error& error) {
      evidence.reset();
      // An input that was refused is no run: only faults leave evidence.
      if (error.exit_code() == ExitCode::kFault) write_fault_evidence(world, error, result);
      throw;
    }
  }
  if (!result.audit_ok) audit_ok_ = false;
  if (world.rank() != 0) return;
  reports::Envelope envelope = begin(world);
  envelope.ranks = result.ranks;
  envelope.ended_at = reports::now_utc();
  const std::string document = reports::train_json(envelope, result, plan_);
  evidence->write(document);
  evidence->commit();
  std::cerr << audit_table(result);
  log::info("evidence in " + folder->evidence_path().string());
  if (options_.json) std::cout << document;
}

void TrainRun::write_fault_evidence(const collectives::Communicator& world, const Error& error,
                                    engine::TrainResult& result) const {
  const std::vector<int> lost = lost_ranks(error);
  int writer = 0;
  while (std::find(lost.begin(), lost.end(), writer) != lost.end()) ++writer;
  if (world.rank() != writer) return;
  const std::chrono::duration<double> since_start = std::chrono::steady_clock::now() - start_;
  engine::FaultRecord fault;
  fault.code = error.code();
  fault.message = error.what();
  fault.lost_rank = lost.empty() ? -1 : lost.front();
  fault.lost_host = lost_host(error);
  fault.at_step = static_cast<std::int64_t>(result.steps.size()) + 1;
  fault.detected_s = since_start.count();
  result.fault = fault;
  result.audit_ok = false;
  try {
    if (writer > 0) engine::remove_unfinished_evidence(output_dir());
    reports::Envelope envelope = begin(world);
    envelope.ranks = result.ranks;
    envelope.ended_at = reports::now_utc();
    write_file(std::filesystem::path(output_dir()) / "evidence.json",
               reports::train_json(envelope, result, plan_));
  } catch (const Error& second) {
    // The first failure is the one to report; the disk may be what failed.
    log::warn(std::string("the fault could not be recorded: ") + second.what());
  }
}

}  // namespace nqd::cli
