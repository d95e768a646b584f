// What the output of a benchmark and a job's NCCL log say is wrong: docs/diagnose.md.
#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "collectives/bench/bench.h"
#include "collectives/bench/fabric_promise.h"
#include "collectives/nccl/log.h"
#include "planner/spec.h"
#include "reports/envelope.h"
#include "reports/nccl_tests/nccl_tests.h"

namespace nqd::reports {

// Rows of one program, and where its ranks were.
struct MeasuredRun {
  std::string path;
  std::string collective;
  int ranks = 0;
  int nodes = 0;  // 0 = unknown
  std::vector<collectives::BenchRow> rows;
};

struct DiagnosisInput {
  std::filesystem::path path;
  std::string kind;  // "nccl-tests", "nccl-tests and NCCL log", "NCCL log", "nqd bench"
};

struct Diagnosis {
  std::vector<DiagnosisInput> inputs;
  std::vector<MeasuredRun> runs;
  collectives::NcclLog log;
  std::string promised_by;                     // cluster; empty without one
  std::vector<std::string> notes;              // what was left out, or could not be judged
  std::vector<collectives::Verdict> verdicts;  // errors first
};

// Reads and judges the files together: lines of one job may be spread over them. A file is nqd
// bench evidence, JSON of nccl-tests, or text that holds nccl-tests tables, NCCL log lines or both.
// `cluster` may be null. Throws Error (kUsage): NQD2001, NQD2101, NQD2106 for what cannot be read,
// NQD2107 for a file that is none of these.
Diagnosis diagnose(const std::vector<std::filesystem::path>& paths,
                   const planner::ClusterSpec* cluster, const std::string& cluster_name);

// {…envelope, inputs, promised_by, rows, processes, notes, verdicts}; schemas/evidence.schema.json.
// What the log does not say is null.
std::string diagnosis_json(const Envelope& envelope, const Diagnosis& diagnosis);

// Line rate, adapters and links as the cluster has them.
collectives::FabricPromise promise_of(const planner::ClusterSpec& cluster,
                                      const std::string& cluster_name);

}  // namespace nqd::reports
