#include "cli/bench/run.h"

#include <algorithm>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/host.h"
#include "base/line_file.h"
#include "cli/bench/compare.h"
#include "cli/bench/expect.h"
#include "cli/bench/nccl.h"
#include "cli/bench/session.h"
#include "cli/bench/table.h"
#include "cli/bench/tuning.h"
#include "cli/command.h"
#include "collectives/bench/bench.h"
#include "collectives/world.h"
#include "engine/parallel/agree.h"
#include "engine/train/preflight.h"
#include "planner/calibration/calibration.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

using collectives::BenchResult;
using collectives::BenchRow;
using collectives::Communicator;

// Refuses to write into a file of something else.
void open_lines(const std::string& path, std::optional<LineFile>& lines) {
  lines.emplace(path);
  if (lines->first_line().empty() || reports::is_bench_header(lines->first_line())) return;
  throw Error(ExitCode::kUsage, "NQD2002", path + " holds something else than the lines of a bench",
              "give --append a new file, or one that it wrote");
}

// One rank's part. Returns the exit code, the same on all.
int run_rank(Communicator& world, const BenchFlags& flags, const collectives::BenchOptions& bench,
             const Context& context, const std::string& launcher,
             const collectives::NcclLogCapture* capture) {
  const bool speaker = world.rank() == 0;
  std::optional<AtomicFile> output;
  std::vector<BenchRow> old_rows;
  std::vector<planner::Expectation> expectations;
  std::optional<LineFile> lines;
  std::vector<planner::Crossovers> crossovers;
  engine::attempt_together(world, [&] {
    engine::check_host_memory(static_cast<double>(bench_memory_bytes(bench)), read_host_info(),
                              collectives::ranks_on_this_host(world),
                              "end the sweep at a smaller size with --end");
    if (speaker && !flags.compare.empty()) old_rows = read_old_rows(flags.compare);
    if (speaker && !flags.expect.empty()) {
      expectations = planner::read_expectations(flags.expect);
    }
    if (speaker && is_calibration(flags.cluster)) {
      crossovers = planner::read_calibration(flags.cluster).crossovers;
    }
    if (speaker && !flags.session.output.empty()) output.emplace(flags.session.output);
    if (speaker && !flags.append.empty()) open_lines(flags.append, lines);
  });
  if (!flags.cluster.empty() && capture == nullptr) share_tuning(world, crossovers, bench);
  reports::Envelope envelope = reports::begin_envelope("bench", context.argv);
  envelope.world_size_asked = flags.session.ranks.value_or(world.size());
  envelope.world_size_actual = world.size();
  envelope.backend = capture != nullptr ? "nccl" : world.backend();
  envelope.ranks = gather_ranks(world, launcher);
  const bool table_wanted = speaker && !flags.session.json;
  bool started = false;
  bool headed = false;
  const auto on_row = [&](const BenchRow& row) {
    if (lines) {
      if (!std::exchange(headed, true)) lines->append(reports::bench_header_line(envelope, bench));
      lines->append(reports::bench_row_line(row));
    }
    if (!table_wanted || capture != nullptr) return;
    if (!std::exchange(started, true)) print_header(world, bench);
    print_row(row, size_bytes(bench.dtype));
  };
  NcclRun nccl;
  if (capture != nullptr) nccl = run_nccl(world, flags, bench, *capture, table_wanted, on_row);
  BenchResult result =
      capture != nullptr ? std::move(nccl.result) : run_bench(world, bench, on_row);
  collectives::Comparison comparison;
  if (speaker && !flags.compare.empty()) {
    comparison = compare_rows(old_rows, result.rows, flags.tolerance);
    judge_changes(comparison, flags.compare, flags.tolerance, result.verdicts);
  }
  if (speaker && !flags.expect.empty()) {
    judge_expectations(expectations, flags.expect, result.rows, result.verdicts);
  }
  envelope.ended_at = reports::now_utc();
  engine::attempt_together(world, [&] {
    if (!speaker) return;
    const std::string document = capture != nullptr
                                     ? reports::bench_json(envelope, result, nccl.evidence)
                                     : reports::bench_json(envelope, result);
    if (output) {
      output->write(document);
      output->commit();
    }
    if (flags.session.json) std::cout << document;
  });
  if (table_wanted) {
    print_changes(comparison);
    capture != nullptr ? print_verdicts(result.verdicts) : print_footer(result);
  }
  // Rank 0 alone knows the old rows and the expectations.
  auto failed = static_cast<std::byte>(
      std::any_of(result.verdicts.begin(), result.verdicts.end(),
                  [](const collectives::Verdict& verdict) { return verdict.severity == "error"; }));
  world.broadcast(std::span(&failed, 1), 0);
  return static_cast<int>(failed != std::byte{0} ? ExitCode::kNo : ExitCode::kOk);
}

}  // namespace

int run_collective_bench(const BenchFlags& flags, const Context& context) {
  const collectives::LaunchIdentity identity = collectives::read_launch_identity();
  collectives::BenchOptions bench;
  std::unique_ptr<collectives::NcclLogCapture> capture;
  try {
    bench = parsed_options(flags);
    sweep_sizes(bench);
    if (flags.backend == "nccl") {
      capture = prepare_nccl(flags, bench);
    } else if (flags.graph) {
      throw Error(ExitCode::kUsage, "NQD2104",
                  "--graph is of device buffers, which " + flags.backend + " does not have",
                  "give --backend nccl too");
    }
  } catch (Error& error) {
    error.set_quiet(identity.rank != 0);
    throw;
  }
  collectives::WorldOptions world;
  // The ranks of NCCL meet over what else there is.
  world.backend = capture ? "auto" : flags.backend;
  world.check_calls = flags.check_calls;
  return run_ranks(flags.session, context, world, [&](Communicator& comm) {
    return run_rank(comm, flags, bench, context, identity.launcher, capture.get());
  });
}

}  // namespace nqd::cli
