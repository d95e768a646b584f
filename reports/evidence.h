// Evidence documents as JSON: schemas/evidence.schema.json is the contract. Every document ends in
// a newline.
#pragma once

#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "collectives/bench/bench.h"
#include "engine/records.h"
#include "engine/scale/records.h"
#include "planner/calibration/calibration.h"
#include "planner/calibration/hold_out.h"
#include "planner/plan/plan.h"
#include "reports/curves.h"
#include "reports/doctor.h"
#include "reports/envelope.h"

namespace nqd::reports {

// `mesh-plan --json`: {"configs": [{path, valid, diagnostics, mesh, memory, communication,
// pipeline, time, operations, calibration, mfu, hfu, recommendation}]}, with `rank_maps` also
// rank_map; schemas/mesh-plan.schema.json.
struct PlannedConfig {
  std::string path;
  bool loaded = true;  // false: only diagnostics are meaningful
  planner::Plan plan;  // diagnostics of loading and planning together
};
std::string plan_json(const std::vector<PlannedConfig>& configs, bool rank_maps = false);

// One evidence document each. A figure that the record marks as not measured is null, never 0.
std::string bench_json(const Envelope& envelope, const collectives::BenchResult& result);
// The lines of `nqd bench --append`, without their newline: a header (the envelope, definitions,
// options and "format": kLinesFormat; its ended_at is when it was written), then a row each.
inline constexpr std::string_view kLinesFormat = "lines";
std::string bench_header_line(const Envelope& envelope, const collectives::BenchOptions& options);
std::string bench_row_line(const collectives::BenchRow& row);
// Whether `line` is such a header.
bool is_bench_header(const std::string& line);
std::string train_json(const Envelope& envelope, const engine::TrainResult& result,
                       const planner::Plan& plan);
// `inputs` are the documents that were fitted; `skipped` as calibrate() filled it.
// `held_out`: member hold_out, absent when null.
struct CurveHoldOut;
std::string calibration_json(const Envelope& envelope, const planner::Calibration& calibration,
                             const std::vector<std::filesystem::path>& inputs,
                             const std::vector<std::string>& skipped,
                             const std::vector<CurveHoldOut>* held_out = nullptr);
std::string doctor_json(const Envelope& envelope, const std::vector<MachineCheck>& checks);
// One metrics line (JSON, no newline) a step, evaluation or roll-back.
std::string metrics_line(const engine::StepRecord& step);
std::string metrics_line(const engine::EvalRecord& eval);
std::string metrics_line(const engine::RollBackRecord& roll_back);

// What a reader of evidence gets back: the part that belongs to envelope.kind is filled.
struct Evidence {
  std::filesystem::path path;
  Envelope envelope;
  collectives::BenchResult bench;    // kind "bench"
  engine::TrainResult train;         // kind "train"
  std::string data_path;             // kind "train": the dataset's folder as it was given
  planner::Calibration calibration;  // kind "calibration"
  std::vector<MachineCheck> checks;  // kind "doctor"
  LossCurves curves;                 // kind "curves"
  engine::ScaleResult scale;         // kind "scale"
};
// Unreadable, truncated or foreign JSON, a missing field, a wrong type, an unknown kind, a newer
// schema_version, or a bench row whose percentiles are not those of its samples_s (1e-9, relative)
// is an Error (kUsage, NQD2101) that names the file, the place and what is wrong.
// Members that this version does not know are ignored. Lines of `nqd bench --append` read as one
// document: all rows under the first header; later headers must be of the same host, backend and
// number of ranks, and a last line without its newline (the run was killed as it wrote) is left
// out.
Evidence read_evidence(const std::filesystem::path& path);

// Samples of bench evidence as calibration input: one curve per (collective, algorithm, ranks) from
// the p50 of every verified row, the crossovers (reports/crossovers.h), the FLOP-weighted GEMM rate
// (all FLOPs ÷ all p50 times) and the median memory bandwidth. Rows and groups that cannot be used
// are named in `skipped`, one sentence each. Throws Error (kUsage): NQD2201 when nothing can be
// fitted, with the reasons; NQD2202 when rows of one group were measured in different ways
// (transport, type, operator, in place, host): one curve through two fabrics describes neither.
planner::Calibration calibrate(const std::vector<Evidence>& evidence,
                               std::vector<std::string>* skipped = nullptr);

// How well curves of the same samples predict the sizes that they do not see.
struct CurveHoldOut {
  std::string collective;
  std::string algorithm;
  int ranks = 0;
  planner::HoldOut result;
};
// For every curve of calibrate() that has 5 sizes or more.
std::vector<CurveHoldOut> hold_out_curves(const std::vector<Evidence>& evidence);

}  // namespace nqd::reports
