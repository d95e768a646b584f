// `nqd diagnose FILE…`: what nccl-tests output, NCCL logs and bench evidence say is wrong.
#include <CLI/CLI.hpp>
#include <algorithm>
#include <filesystem>
#include <iostream>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/units.h"
#include "cli/command.h"
#include "planner/config/cluster_file.h"
#include "reports/diagnose/diagnosis.h"
#include "reports/page/format.h"

namespace nqd::cli {
namespace {

using collectives::BenchRow;
using collectives::NcclEdge;
using collectives::NcclProcess;
using reports::Diagnosis;

struct Options {
  std::vector<std::string> inputs;
  std::string cluster;
  bool json = false;
};

void print_run(const reports::MeasuredRun& run) {
  std::cout << "  " << run.collective << ", "
            << (run.ranks > 0 ? std::to_string(run.ranks) : std::string("?")) << " ranks"
            << (run.nodes > 0 ? " on " + std::to_string(run.nodes) + " nodes" : "") << ": ";
  if (run.rows.empty()) {
    std::cout << "no rows\n";
    return;
  }
  const auto [small, large] = std::minmax_element(
      run.rows.begin(), run.rows.end(),
      [](const BenchRow& a, const BenchRow& b) { return a.effective_bytes < b.effective_bytes; });
  const auto peak = std::max_element(
      run.rows.begin(), run.rows.end(),
      [](const BenchRow& a, const BenchRow& b) { return a.busbw_gbps < b.busbw_gbps; });
  std::cout << run.rows.size() << " rows, "
            << reports::short_bytes(static_cast<double>(small->effective_bytes)) << " to "
            << reports::short_bytes(static_cast<double>(large->effective_bytes))
            << "; smallest takes " << format_seconds(small->p50_s) << "; highest busbw "
            << reports::fixed(peak->busbw_gbps, 2) << " GB/s at "
            << reports::short_bytes(static_cast<double>(peak->effective_bytes)) << "\n";
}

// "IB 16, unknown 2": how many processes say what.
void print_counts(const std::string& title, const std::map<std::string, std::size_t>& counts) {
  std::cout << "  " << title << ": ";
  bool first = true;
  for (const auto& [name, count] : counts) {
    std::cout << (first ? "" : ", ") << name << " (" << count << ")";
    first = false;
  }
  std::cout << "\n";
}

void print_log(const collectives::NcclLog& log) {
  if (log.processes.empty()) return;
  std::map<std::string, std::size_t> networks, inits, edges;
  for (const NcclProcess& process : log.processes) {
    ++networks[process.network.empty() ? "unknown" : process.network];
    const bool known = !process.comms.empty();
    const bool done = std::all_of(process.comms.begin(), process.comms.end(),
                                  [](const auto& comm) { return comm.completed; });
    ++inits[!known ? "unknown" : done ? "complete" : "not complete"];
    for (const NcclEdge& edge : process.edges) {
      if (edge.kind == NcclEdge::Kind::kPeerToPeer) ++edges["P2P"];
      if (edge.kind == NcclEdge::Kind::kSharedMemory) ++edges["SHM"];
      if (edge.kind != NcclEdge::Kind::kNetwork) continue;
      ++edges["NET/" + edge.network + (edge.gpu_direct == true ? "/GDRDMA" : "")];
    }
  }
  if (edges.empty()) edges["unknown"] = 0;
  std::cout << "  NCCL " << (log.version.empty() ? "of unknown version" : log.version) << ", "
            << log.processes.size() << " processes, " << log.records << " lines\n";
  print_counts("network", networks);
  print_counts("init", inits);
  print_counts("connections", edges);
}

void print_text(const Diagnosis& diagnosis) {
  for (const reports::DiagnosisInput& input : diagnosis.inputs) {
    std::cout << input.path.string() << ": " << input.kind << "\n";
  }
  for (const reports::MeasuredRun& run : diagnosis.runs) print_run(run);
  print_log(diagnosis.log);
  for (const std::string& note : diagnosis.notes) std::cout << "note: " << note << "\n";
  for (const collectives::Verdict& verdict : diagnosis.verdicts) {
    std::cout << verdict.severity << " [" << verdict.code << ", " << verdict.confidence
              << "]: " << verdict.evidence << "\n  threshold: " << verdict.threshold
              << "\n  cause: " << verdict.cause << "\n  next: " << verdict.next_step << "\n";
  }
  if (!diagnosis.verdicts.empty()) return;
  std::cout << "no verdict: nothing in these files speaks against the run; what they do not say is "
               "unknown\n";
}

int run(const Options& options, const Context& context) {
  std::optional<planner::ClusterSpec> cluster;
  std::string cluster_name = options.cluster;
  if (!options.cluster.empty()) {
    cluster = planner::read_cluster(options.cluster);
    if (!std::filesystem::exists(options.cluster)) cluster_name = "preset " + options.cluster;
  }
  const reports::Envelope envelope = reports::begin_envelope("diagnosis", context.argv);
  const Diagnosis diagnosis = reports::diagnose({options.inputs.begin(), options.inputs.end()},
                                                cluster ? &*cluster : nullptr, cluster_name);
  if (options.json) {
    std::cout << reports::diagnosis_json(envelope, diagnosis);
  } else {
    print_text(diagnosis);
  }
  const bool failed =
      std::any_of(diagnosis.verdicts.begin(), diagnosis.verdicts.end(),
                  [](const collectives::Verdict& verdict) { return verdict.severity == "error"; });
  return static_cast<int>(failed ? ExitCode::kNo : ExitCode::kOk);
}

}  // namespace

void add_diagnose_command(CLI::App& app, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = app.add_subcommand(
      "diagnose", "Say what nccl-tests output, NCCL logs and bench evidence show is wrong");
  command
      ->add_option(
          "files", options->inputs,
          "output of nccl-tests (text or JSON), logs of NCCL_DEBUG=INFO, both in one file, "
          "or documents of nqd bench; all of one job")
      ->required()
      ->type_name("FILE");
  command
      ->add_option("--cluster", options->cluster,
                   "what the fabric promises: a config with a cluster section, that section alone, "
                   "a preset such as dgx-h100, or a calibration")
      ->type_name("FILE");
  command->add_flag("--json", options->json, "print rows, processes and verdicts as JSON");
  command->footer(
      "Exit status: 0 no verdict of severity error (warnings may be printed), 1 at least one, "
      "2 a file cannot be read or is none of these.");
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace nqd::cli
