#include "reports/nccl_tests/measurements.h"

#include <algorithm>
#include <string>
#include <utility>

#include "base/error.h"
#include "base/file.h"
#include "reports/json_field.h"
#include "reports/nccl_tests/nccl_tests.h"

namespace nqd::reports {
namespace {

void check_run(const NcclTestsRun& run, const std::filesystem::path& path) {
  const auto refuse = [&](const std::string& what, const std::string& hint) {
    throw Error(ExitCode::kUsage, "NQD2108", path.string() + ": " + what, hint);
  };
  if (run.ranks == 1 || run.separate_worlds) {
    refuse("the run of " + run.collective + " is of one rank, which exchanges nothing",
           "`nqd diagnose` says more");
  }
  if (run.ranks == 0) {
    refuse("the table does not say how many ranks it is of",
           "keep the lines \"# Rank 0 … Pid … on …\" that nccl-tests prints before it");
  }
  if (!collectives::parse_collective(run.collective)) {
    refuse("the table is of \"" + run.collective + "\", no collective that nqd prices",
           "keep the command line (…/all_reduce_perf …) or the line \"# Collective test starting\" "
           "before it");
  }
}

Evidence as_evidence(NcclTestsOutput output, const std::filesystem::path& path) {
  Evidence evidence;
  evidence.path = path;
  evidence.envelope.kind = "bench";
  evidence.envelope.backend = "nccl";
  evidence.envelope.ended_at = "time not recorded";
  for (NcclTestsRun& run : output.runs) {
    if (run.rows.empty()) continue;
    check_run(run, path);
    const auto is_apart = [](const collectives::BenchRow& row) { return !row.in_place; };
    const bool apart = std::any_of(run.rows.begin(), run.rows.end(), is_apart);
    for (collectives::BenchRow& row : run.rows) {
      if (apart == is_apart(row)) evidence.bench.rows.push_back(std::move(row));
    }
    std::string& hosts = evidence.envelope.host.hostname;
    for (const NcclTestsDevice& device : run.devices) {
      const bool known =
          std::any_of(evidence.envelope.ranks.begin(), evidence.envelope.ranks.end(),
                      [&](const engine::RankIdentity& rank) { return rank.host == device.host; });
      if (!known) hosts += (hosts.empty() ? "" : ",") + device.host;
      engine::RankIdentity& rank = evidence.envelope.ranks.emplace_back();
      rank.rank = device.rank;
      rank.host = device.host;
      rank.pid = device.pid;
    }
  }
  return evidence;
}

// A document that ends on its first line, with more behind it: lines of `nqd bench --append`.
bool is_lines(const std::string& text, std::size_t first) {
  const std::size_t end = text.find('\n', first);
  return end != std::string::npos && text[end - 1] == '}' &&
         text.find_first_not_of(" \t\r\n", end) != std::string::npos;
}

}  // namespace

Evidence read_measurements(const std::filesystem::path& path) {
  const std::string text = read_file(path);
  const std::size_t first = text.find_first_not_of(" \t\r\n");
  if (first != std::string::npos && (text[first] == '{' || text[first] == '[')) {
    if (is_lines(text, first)) return read_evidence(path);
    const JsonField document = JsonField::parse(text, path);
    if (!is_nccl_tests_json(document)) return read_evidence(path);
    return as_evidence(read_nccl_tests_json(document), path);
  }
  NcclTestsOutput output = read_nccl_tests_text(text, path);
  // What is no table may still be damaged JSON, of which read_evidence knows more to say.
  const bool table = std::any_of(output.runs.begin(), output.runs.end(),
                                 [](const NcclTestsRun& run) { return !run.rows.empty(); });
  return table ? as_evidence(std::move(output), path) : read_evidence(path);
}

}  // namespace nqd::reports
