#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "collectives/nccl/log_verdicts.h"
#include "reports/diagnose/diagnosis.h"
#include "reports/diagnose/run_verdicts.h"
#include "reports/evidence.h"
#include "reports/json_field.h"

namespace nqd::reports {
namespace {

using collectives::FabricPromise;
using collectives::NcclComm;
using collectives::NcclLog;
using collectives::NcclProcess;
using collectives::Verdict;

// Everything that was read, before it is judged.
struct Gathered {
  std::vector<std::string> texts;  // that may hold NCCL lines
  std::vector<std::pair<std::string, NcclTestsRun>> nccl_runs;
  std::vector<Evidence> evidence;
};

void add_output(const std::filesystem::path& path, NcclTestsOutput output, Gathered& gathered,
                Diagnosis& diagnosis) {
  for (NcclTestsRun& run : output.runs)
    gathered.nccl_runs.emplace_back(path.string(), std::move(run));
  for (std::string& note : output.notes) diagnosis.notes.push_back(std::move(note));
}

bool is_json(const std::string& text) {
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  return first != std::string::npos && text[first] == '{';
}

void read_json(const std::filesystem::path& path, const std::string& text, Gathered& gathered,
               Diagnosis& diagnosis) {
  const JsonField document = JsonField::parse(text, path);
  if (is_nccl_tests_json(document)) {
    add_output(path, read_nccl_tests_json(document), gathered, diagnosis);
    diagnosis.inputs.push_back({path, "nccl-tests"});
    return;
  }
  Evidence evidence = read_evidence(path);
  if (evidence.envelope.kind != "bench") {
    throw Error(ExitCode::kUsage, "NQD2107",
                path.string() + " is evidence of kind " + evidence.envelope.kind +
                    ", which holds no rows of a collective",
                "give what `nqd bench COLLECTIVE --output FILE` wrote");
  }
  gathered.evidence.push_back(std::move(evidence));
  diagnosis.inputs.push_back({path, "nqd bench"});
}

void read_text(const std::filesystem::path& path, std::string text, Gathered& gathered,
               Diagnosis& diagnosis) {
  NcclTestsOutput output = read_nccl_tests_text(text, path);
  const std::string_view view = text;
  const bool logged = collectives::parse_nccl_logs({&view, 1}).records > 0;
  const bool measured = !output.runs.empty();
  if (!logged && !measured) {
    throw Error(ExitCode::kUsage, "NQD2107",
                path.string() + ":1:1: no table of nccl-tests and no line of NCCL in " +
                    std::to_string(text.size()) + " bytes",
                "give the output of nccl-tests, a log made with NCCL_DEBUG=INFO, or evidence of "
                "`nqd bench`");
  }
  add_output(path, std::move(output), gathered, diagnosis);
  diagnosis.inputs.push_back({path, !logged    ? "nccl-tests"
                                    : measured ? "nccl-tests and NCCL log"
                                               : "NCCL log"});
  if (logged) gathered.texts.push_back(std::move(text));
}

// The nodes of a run of nccl-tests: by its device lines, else by a communicator of the log that has
// its number of ranks, else as many as the cluster needs for it.
int nodes_of(const NcclTestsRun& run, const NcclLog& log, const FabricPromise& promise) {
  if (run.hosts() > 0) return run.hosts();
  for (const NcclProcess& process : log.processes) {
    for (const NcclComm& comm : process.comms) {
      if (comm.nodes > 0 && (comm.ranks == run.ranks || run.ranks == 0)) return comm.nodes;
    }
  }
  if (run.ranks == 0 || promise.gpus_per_node == 0) return 0;
  return (run.ranks + promise.gpus_per_node - 1) / promise.gpus_per_node;
}

int hosts_of(const Envelope& envelope) {
  std::set<std::string> hosts;
  for (const engine::RankIdentity& rank : envelope.ranks) hosts.insert(rank.host);
  return static_cast<int>(hosts.size());
}

// The network that every process of the log names; empty when some do not, or they differ.
std::string network_of(const NcclLog& log) {
  std::set<std::string> names;
  for (const NcclProcess& process : log.processes) {
    if (!process.network.empty()) names.insert(process.network);
  }
  return names.size() == 1 ? *names.begin() : "";
}

bool has_code(const std::vector<Verdict>& verdicts, const std::string& code) {
  return std::any_of(verdicts.begin(), verdicts.end(),
                     [&](const Verdict& verdict) { return verdict.code == code; });
}

// One verdict of a kind that several runs, or log and table, both show.
void add_new(std::vector<Verdict> found, std::vector<Verdict>& verdicts) {
  const std::vector<Verdict> known = verdicts;
  for (Verdict& verdict : found) {
    if (!has_code(known, verdict.code)) verdicts.push_back(std::move(verdict));
  }
}

int severity_order(const Verdict& verdict) {
  if (verdict.severity == "error") return 0;
  return verdict.severity == "warning" ? 1 : 2;
}

void judge(const Gathered& gathered, const planner::ClusterSpec* cluster,
           const FabricPromise& promise, Diagnosis& diagnosis) {
  const bool ran = std::any_of(gathered.nccl_runs.begin(), gathered.nccl_runs.end(),
                               [](const auto& run) { return !run.second.rows.empty(); });
  std::vector<Verdict>& verdicts = diagnosis.verdicts;
  for (const Evidence& evidence : gathered.evidence) {
    verdicts.insert(verdicts.end(), evidence.bench.verdicts.begin(), evidence.bench.verdicts.end());
  }
  add_new(collectives::judge_nccl_log(diagnosis.log, promise, ran), verdicts);
  for (const auto& [path, run] : gathered.nccl_runs) {
    std::vector<Verdict> found;
    judge_nccl_tests(run, found);
    add_new(std::move(found), verdicts);
  }
  const std::string network = network_of(diagnosis.log);
  for (const MeasuredRun& run : diagnosis.runs) {
    std::vector<Verdict> found;
    judge_bandwidth(run, cluster, promise, network, found, diagnosis.notes);
    add_new(std::move(found), verdicts);
  }
  std::stable_sort(verdicts.begin(), verdicts.end(), [](const Verdict& a, const Verdict& b) {
    return severity_order(a) < severity_order(b);
  });
}

}  // namespace

FabricPromise promise_of(const planner::ClusterSpec& cluster, const std::string& cluster_name) {
  FabricPromise promise;
  promise.source = cluster_name;
  promise.gpus_per_node = static_cast<int>(cluster.gpus_per_node);
  promise.adapters_per_node =
      static_cast<int>(cluster.nics_per_node > 0 ? cluster.nics_per_node : cluster.gpus_per_node);
  promise.adapter_bytes_per_s = cluster.inter_node.bandwidth_bytes_per_s *
                                static_cast<double>(cluster.gpus_per_node) /
                                promise.adapters_per_node;
  promise.scale_up_bytes_per_s = cluster.intra_node.bandwidth_bytes_per_s;
  promise.oversubscription = cluster.oversubscription;
  return promise;
}

Diagnosis diagnose(const std::vector<std::filesystem::path>& paths,
                   const planner::ClusterSpec* cluster, const std::string& cluster_name) {
  Diagnosis diagnosis;
  Gathered gathered;
  for (const std::filesystem::path& path : paths) {
    std::string text = read_file(path);
    if (is_json(text)) {
      read_json(path, text, gathered, diagnosis);
    } else {
      read_text(path, std::move(text), gathered, diagnosis);
    }
  }
  const std::vector<std::string_view> views(gathered.texts.begin(), gathered.texts.end());
  diagnosis.log = collectives::parse_nccl_logs(views);
  if (diagnosis.log.cut_records > 0) {
    diagnosis.notes.push_back(std::to_string(diagnosis.log.cut_records) + " of " +
                              std::to_string(diagnosis.log.records) +
                              " NCCL lines are cut or torn into each other");
  }
  const FabricPromise promise =
      cluster != nullptr ? promise_of(*cluster, cluster_name) : FabricPromise{};
  diagnosis.promised_by = promise.source;
  for (const auto& [path, run] : gathered.nccl_runs) {
    diagnosis.runs.push_back(
        {path, run.collective, run.ranks, nodes_of(run, diagnosis.log, promise), run.rows});
  }
  for (const Evidence& evidence : gathered.evidence) {
    if (evidence.bench.rows.empty()) continue;
    const collectives::BenchRow& first = evidence.bench.rows.front();
    diagnosis.runs.push_back({evidence.path.string(), first.collective, first.ranks,
                              hosts_of(evidence.envelope), evidence.bench.rows});
  }
  judge(gathered, cluster, promise, diagnosis);
  return diagnosis;
}

}  // namespace nqd::reports
