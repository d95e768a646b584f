#include "cli/bench/session.h"

#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <atomic>
#include <cstdio>
#include <iostream>

#include "base/file.h"
#include "base/host.h"
#include "cli/command.h"
#include "collectives/bench/verdicts.h"
#include "engine/parallel/agree.h"
#include "engine/train/preflight.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

using collectives::BenchResult;
using collectives::Communicator;

void write_document(const std::string& document, bool json, std::optional<AtomicFile>& output) {
  if (output) {
    output->write(document);
    output->commit();
  }
  if (json) std::cout << document;
}

// When `error` says that ranks were started which do not see each other (NQD3001 of MPI's world,
// NQD3005): the first process prints and writes a document without rows whose verdict is
// "singletons".
void report_singletons(const Error& error, const collectives::LaunchIdentity& identity,
                       const Context& context, const SessionFlags& flags) {
  const std::string what = error.what();
  const bool alone = error.code() == "NQD3005" ||
                     (error.code() == "NQD3001" && what.find("singleton") != std::string::npos);
  if (!alone || identity.rank != 0) return;
  reports::Envelope envelope = reports::begin_envelope("bench", context.argv);
  envelope.world_size_asked = identity.world_size;
  envelope.ended_at = reports::now_utc();
  BenchResult result;
  result.verdicts.push_back(collectives::singletons_verdict(identity.world_size, what));
  std::optional<AtomicFile> file;
  if (!flags.output.empty()) file.emplace(flags.output);
  write_document(reports::bench_json(envelope, result), flags.json, file);
}

int run_rank(Communicator& world, const SessionFlags& flags, const Context& context,
             const SessionNeeds& needs, const Measurement& measure, const std::string& launcher) {
  const bool speaker = world.rank() == 0;
  std::optional<AtomicFile> output;
  engine::attempt_together(world, [&] {
    if (world.size() < needs.ranks) {
      throw Error(ExitCode::kNo, "NQD3005", "one rank has nobody to be compared with or to talk to",
                  "start it with mpirun -n 2 or more, or with --ranks 2");
    }
    engine::check_host_memory(needs.bytes_per_rank, read_host_info(),
                              collectives::ranks_on_this_host(world),
                              "run fewer ranks, or end at a smaller size");
    if (speaker && !flags.output.empty()) output.emplace(flags.output);
  });
  reports::Envelope envelope = reports::begin_envelope("bench", context.argv);
  BenchResult result;
  result.machine = begin_record(world);
  measure(world, result, speaker && !flags.json);
  finish_record(world, result.machine);
  judge_placement({.rows = {},
                   .miscounted_rows = {},
                   .machine = result.machine,
                   .ranks_are_processes = world.backend() != "local"},
                  result.verdicts);
  envelope.world_size_asked = flags.ranks.value_or(world.size());
  envelope.world_size_actual = world.size();
  envelope.backend = world.backend();
  envelope.ranks = gather_ranks(world, launcher);
  envelope.ended_at = reports::now_utc();
  engine::attempt_together(world, [&] {
    if (speaker) write_document(reports::bench_json(envelope, result), flags.json, output);
  });
  if (speaker && !flags.json) print_verdicts(result.verdicts);
  return 0;
}

}  // namespace

void add_session_flags(CLI::App& command, SessionFlags& flags) {
  command
      .add_option("--ranks", flags.ranks,
                  "ranks asked for: threads without a launcher, checked against mpirun's")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--deadline", flags.deadline_s,
                  "seconds that a rank waits for another before it names it")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command.add_flag("--json", flags.json, "print the evidence document on stdout, no table");
  command.add_option("--output", flags.output, "write the evidence document to this file");
}

int run_session(const SessionFlags& flags, const Context& context, const SessionNeeds& needs,
                const Measurement& measure) {
  const std::string launcher = collectives::read_launch_identity().launcher;
  return run_ranks(flags, context, {}, [&](Communicator& world) {
    return run_rank(world, flags, context, needs, measure, launcher);
  });
}

int run_ranks(const SessionFlags& flags, const Context& context, collectives::WorldOptions world,
              const std::function<int(Communicator&)>& body) {
  world.ranks = flags.ranks;
  world.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(flags.deadline_s * 1e3));
  std::atomic<int> code = 0;
  try {
    collectives::run_world(world, [&](Communicator& comm) { code = body(comm); });
  } catch (const Error& error) {
    report_singletons(error, collectives::read_launch_identity(), context, flags);
    throw;
  }
  return code;
}

std::vector<engine::RankIdentity> gather_ranks(Communicator& world, const std::string& launcher) {
  const auto size = static_cast<std::size_t>(world.size());
  const std::int64_t pid = ::getpid();
  std::vector<std::int64_t> pids(size);
  world.all_gather(std::as_bytes(std::span(&pid, 1)), std::as_writable_bytes(std::span(pids)),
                   DType::kInt64);
  std::vector<engine::RankIdentity> ranks(size);
  for (std::size_t rank = 0; rank < size; ++rank) {
    ranks[rank].rank = static_cast<int>(rank);
    ranks[rank].host = world.host(static_cast<int>(rank));
    ranks[rank].pid = pids[rank];
    ranks[rank].launcher = launcher;
  }
  return ranks;
}

void print_verdicts(const std::vector<collectives::Verdict>& verdicts) {
  for (const collectives::Verdict& verdict : verdicts) {
    std::printf("# %s [%s, %s]: %s\n#   %s\n#   next: %s\n", verdict.severity.c_str(),
                verdict.code.c_str(), verdict.confidence.c_str(), verdict.evidence.c_str(),
                verdict.cause.c_str(), verdict.next_step.c_str());
  }
}

}  // namespace nqd::cli
