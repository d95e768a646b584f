// Evidence documents as JSON: schemas/evidence.schema.json is the contract.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "engine/records.h"
#include "planner/calibration.h"
#include "planner/plan.h"
#include "reports/envelope.h"

namespace nqd::reports {

// `mesh-plan --json`: {"configs": [{path, valid, diagnostics, mesh, memory, communication, pipeline,
// time, mfu, hfu, recommendation}]}.
struct PlannedConfig {
  std::string path;
  bool loaded = true;      // false: only diagnostics are meaningful
  planner::Plan plan;      // diagnostics of loading and planning together
};
std::string plan_json(const std::vector<PlannedConfig>& configs);

std::string bench_json(const Envelope& envelope, const collectives::BenchResult& result);
std::string train_json(const Envelope& envelope, const engine::TrainResult& result,
                       const planner::Plan& plan);
// One metrics line (JSON, no newline) a step or evaluation.
std::string metrics_line(const engine::StepRecord& step);
std::string metrics_line(const engine::EvalRecord& eval);

// What a reader of evidence gets back. Unreadable, truncated or foreign JSON, an unknown kind or a
// newer schema_version is an Error (kUsage, NQD2101) that names the file and what is wrong.
struct Evidence {
  std::filesystem::path path;
  Envelope envelope;
  collectives::BenchResult bench;  // kind "bench"
  engine::TrainResult train;       // kind "train"
};
Evidence read_evidence(const std::filesystem::path& path);

// Samples of bench evidence as calibration input: one curve per (collective, algorithm, ranks) and
// the compute rates. Throws Error (kUsage, NQD2201) when the documents hold nothing to fit.
planner::Calibration calibrate(const std::vector<Evidence>& evidence);

}  // namespace nqd::reports
