// `nqd bench COLLECTIVE`: the verified sweep, on threads (--ranks N) or under mpirun.
#include <unistd.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <array>
#include <atomic>
#include <cstdio>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/file.h"
#include "base/host.h"
#include "base/units.h"
#include "cli/bench_compare.h"
#include "cli/bench_gemm.h"
#include "cli/command.h"
#include "collectives/bench/bench.h"
#include "collectives/cost.h"
#include "collectives/world.h"
#include "engine/parallel/agree.h"
#include "engine/trainer.h"
#include "reports/evidence.h"

namespace nqd::cli {
namespace {

using collectives::Algorithm;
using collectives::BenchResult;
using collectives::BenchRow;
using collectives::Collective;
using collectives::Communicator;

struct Options {
  collectives::BenchOptions bench;
  std::string begin = "4K";
  std::string end = "64M";
  std::string step;
  std::string dtype = "float32";
  std::string op = "sum";
  std::vector<std::string> algorithms;
  int check = 1;
  std::optional<int> ranks;
  double deadline_s = 60;
  bool json = false;
  std::string output;
  std::string compare;
  double tolerance = 0.1;
};

struct Subcommand {
  Collective collective;
  const char* description;
};
constexpr std::array kSubcommands = {
    Subcommand{Collective::kAllReduce, "Every rank gets the reduction of all ranks' vectors"},
    Subcommand{Collective::kAllGather, "Every rank gets all ranks' shards"},
    Subcommand{Collective::kReduceScatter, "Every rank gets its shard of the reduction"},
    Subcommand{Collective::kBroadcast, "Every rank gets rank 0's vector"},
    Subcommand{Collective::kReduce, "Rank 0 gets the reduction of all ranks' vectors"},
    Subcommand{Collective::kGather, "Rank 0 gets all ranks' shards"},
    Subcommand{Collective::kScatter, "Every rank gets its shard of rank 0's vector"},
    Subcommand{Collective::kAllToAll, "Every rank gets its part of every rank's vector"},
};

template <typename T>
T parsed(const std::optional<T>& value, const std::string& flag, const std::string& text,
         const std::string& allowed) {
  if (value) return *value;
  throw Error(ExitCode::kUsage, "NQD2104", flag + " does not know `" + text + "`",
              "use " + allowed);
}

std::uint64_t parsed_size(const std::string& flag, const std::string& text) {
  return parsed(parse_bytes(text), flag, text, "a size such as 4096, 4K, 64M or 1G");
}

// `all` leaves the choice to the sweep, which knows what the ranks share.
void parse_algorithms(const std::vector<std::string>& texts, collectives::BenchOptions& bench) {
  bench.algorithms.clear();
  for (const std::string& text : texts) {
    if (text == "all") {
      bench.all_algorithms = true;
    } else {
      bench.algorithms.push_back(
          parsed(collectives::parse_algorithm(text), "--algorithm", text,
                 "auto, ring, tree, recursive_doubling, halving_doubling, pairwise, linear, "
                 "direct, library or all"));
    }
  }
  // What the engine runs, so that a calibration prices its runs.
  if (texts.empty()) {
    bench.algorithms.push_back(collectives::resolve(bench.collective, Algorithm::kAuto));
  }
}

collectives::BenchOptions parsed_options(const Options& options) {
  Options parsing = options;
  collectives::BenchOptions& bench = parsing.bench;
  bench.begin_bytes = parsed_size("--begin", options.begin);
  bench.end_bytes = parsed_size("--end", options.end);
  if (!options.step.empty()) bench.step_bytes = parsed_size("--step", options.step);
  bench.dtype = parsed(parse_dtype(options.dtype), "--dtype", options.dtype,
                       "float32, float64, bfloat16, float16, int32, int64 or uint8");
  bench.op = parsed(collectives::parse_reduce_op(options.op), "--op", options.op,
                    "sum, avg, min, max or prod");
  bench.check = options.check != 0;
  parse_algorithms(options.algorithms, bench);
  return bench;
}

// The table, in the columns that readers of nccl-tests know.
class Table {
 public:
  void header(const Communicator& world, const collectives::BenchOptions& options) {
    std::printf("# nqd bench %s, %d ranks (%s), %s\n", text(name(options.collective)).c_str(),
                world.size(), text(world.backend()).c_str(),
                options.in_place ? "in place" : "out of place");
    std::printf(
        "# warm-up %d, iterations %d; a sample is the maximum over ranks; time and\n"
        "# bandwidths are of the median, 1 GB/s = 10^9 bytes/s\n",
        options.warmup, options.iterations);
    std::printf("# %12s %12s %9s %6s %9s %10s %10s %8s %8s %7s\n", "size", "count", "type", "redop",
                "algorithm", "time", "p95", "algbw", "busbw", "#wrong");
    std::printf("# %12s %12s %9s %6s %9s %10s %10s %8s %8s %7s\n", "(B)", "(elements)", "", "", "",
                "(us)", "(us)", "(GB/s)", "(GB/s)", "");
    std::fflush(stdout);
  }

  void row(const BenchRow& row, std::size_t element_bytes) {
    std::printf("  %12llu %12llu %9s %6s %9s %10.2f %10.2f %8.3f %8.3f %7s\n",
                static_cast<unsigned long long>(row.effective_bytes),
                static_cast<unsigned long long>(row.effective_bytes / element_bytes),
                row.dtype.c_str(), row.op.c_str(), row.algorithm.c_str(), row.p50_s * 1e6,
                row.p95_s * 1e6, row.algbw_gbps, row.busbw_gbps,
                row.checked ? std::to_string(row.wrong).c_str() : "N/A");
    std::fflush(stdout);
  }

  void footer(const BenchResult& result) {
    const auto counted =
        std::count_if(result.rows.begin(), result.rows.end(),
                      [](const BenchRow& row) { return row.bytes_sent_per_rank > 0; });
    std::printf("# bytes sent were counted in %d of %d rows (library traffic cannot be)\n",
                static_cast<int>(counted), static_cast<int>(result.rows.size()));
    for (const collectives::Verdict& verdict : result.verdicts) {
      std::printf("# %s [%s, %s]: %s\n#   %s\n#   next: %s\n", verdict.severity.c_str(),
                  verdict.code.c_str(), verdict.confidence.c_str(), verdict.evidence.c_str(),
                  verdict.cause.c_str(), verdict.next_step.c_str());
    }
  }

 private:
  static std::string text(std::string_view view) { return std::string(view); }
};

// Collective. Who took part.
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

// One rank's part. Returns the exit code, the same on all.
int run_rank(Communicator& world, const Options& options, const collectives::BenchOptions& bench,
             const Context& context, const std::string& launcher) {
  const bool speaker = world.rank() == 0;
  std::optional<AtomicFile> output;
  std::vector<BenchRow> old_rows;
  engine::attempt_together(world, [&] {
    // Input, output, and at most as much scratch.
    engine::check_host_memory(3 * static_cast<double>(bench.end_bytes), read_host_info(),
                              collectives::ranks_on_this_host(world),
                              "end the sweep at a smaller size with --end");
    if (speaker && !options.compare.empty()) old_rows = read_old_rows(options.compare);
    if (speaker && !options.output.empty()) output.emplace(options.output);
  });
  reports::Envelope envelope = reports::begin_envelope("bench", context.argv);
  const bool table_wanted = speaker && !options.json;
  Table table;
  bool started = false;
  BenchResult result = run_bench(world, bench, [&](const BenchRow& row) {
    if (!table_wanted) return;
    if (!std::exchange(started, true)) table.header(world, bench);
    table.row(row, size_bytes(bench.dtype));
  });
  collectives::Comparison comparison;
  if (speaker && !options.compare.empty()) {
    comparison = compare_rows(old_rows, result.rows, options.tolerance);
    judge_changes(comparison, options.compare, options.tolerance, result.verdicts);
  }
  envelope.world_size_asked = options.ranks.value_or(world.size());
  envelope.world_size_actual = world.size();
  envelope.backend = world.backend();
  envelope.ranks = gather_ranks(world, launcher);
  envelope.ended_at = reports::now_utc();
  engine::attempt_together(world, [&] {
    if (!speaker) return;
    const std::string document = reports::bench_json(envelope, result);
    if (output) {
      output->write(document);
      output->commit();
    }
    if (options.json) std::cout << document;
  });
  if (table_wanted) {
    print_changes(comparison);
    table.footer(result);
  }
  // Rank 0 alone knows the old rows.
  auto failed = static_cast<std::byte>(
      std::any_of(result.verdicts.begin(), result.verdicts.end(),
                  [](const collectives::Verdict& verdict) { return verdict.severity == "error"; }));
  world.broadcast(std::span(&failed, 1), 0);
  return static_cast<int>(failed != std::byte{0} ? ExitCode::kNo : ExitCode::kOk);
}

int run(const Options& options, const Context& context) {
  const collectives::LaunchIdentity identity = collectives::read_launch_identity();
  collectives::BenchOptions bench;
  try {
    bench = parsed_options(options);
    sweep_sizes(bench);
  } catch (Error& error) {
    error.set_quiet(identity.rank != 0);
    throw;
  }
  collectives::WorldOptions world;
  world.ranks = options.ranks;
  world.deadline = std::chrono::milliseconds(static_cast<std::int64_t>(options.deadline_s * 1e3));
  std::atomic<int> code = 0;
  collectives::run_world(world, [&](Communicator& comm) {
    code = run_rank(comm, options, bench, context, identity.launcher);
  });
  return code;
}

void add_sweep_flags(CLI::App& command, Options& options) {
  command.add_option("-b,--begin", options.begin, "smallest size: 4096, 4K, 64M (binary units)")
      ->capture_default_str();
  command.add_option("-e,--end", options.end, "largest size")->capture_default_str();
  command.add_option("-f,--factor", options.bench.factor, "next size = size x factor")
      ->capture_default_str();
  command.add_option("-i,--step", options.step, "next size = size + step, instead of --factor");
  command.add_option("-n,--iterations", options.bench.iterations, "timed calls a size")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("-w,--warmup", options.bench.warmup, "calls before the timed ones")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("-c,--check", options.check, "verify the result of every size: 1 or 0")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  command
      .add_option("-d,--dtype", options.dtype,
                  "float32, float64, bfloat16, float16, int32, int64 or uint8")
      ->capture_default_str();
}

void add_run_flags(CLI::App& command, Options& options) {
  command
      .add_option("--ranks", options.ranks,
                  "ranks asked for: threads without a launcher, checked against mpirun's")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--deadline", options.deadline_s,
                  "seconds that a rank waits for another before it names it")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command.add_flag("--json", options.json, "print the evidence document on stdout, no table");
  command.add_option("--output", options.output, "write the evidence document to this file");
  command.add_option("--compare", options.compare,
                     "an earlier bench document: exit 1 when a row is slower beyond --tolerance");
  command.add_option("--tolerance", options.tolerance, "share by which a median may be slower")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
}

void add_collective(CLI::App& bench, Context& context, const Subcommand& subcommand) {
  auto options = std::make_shared<Options>();
  options->bench.collective = subcommand.collective;
  CLI::App* command = bench.add_subcommand(std::string(collectives::name(subcommand.collective)),
                                           subcommand.description);
  add_sweep_flags(*command, *options);
  const bool reduces = subcommand.collective == Collective::kAllReduce ||
                       subcommand.collective == Collective::kReduceScatter ||
                       subcommand.collective == Collective::kReduce;
  if (reduces) {
    command->add_option("-o,--op", options->op, "sum, avg, min, max or prod")
        ->capture_default_str();
  }
  command
      ->add_option(
          "--algorithm", options->algorithms,
          "ring (the default; for broadcast tree), tree, direct, auto, library (all_reduce "
          "under mpirun) or all; commas between several")
      ->delimiter(',');
  command->add_flag("-R,--registered", options->bench.registered,
                    "vectors in shared buffers, which ranks of one host touch in place");
  const bool one_vector = subcommand.collective == Collective::kBroadcast;
  if (!one_vector && subcommand.collective != Collective::kAllToAll) {
    command->add_flag("--in-place", options->bench.in_place, "input and output share memory");
  }
  add_run_flags(*command, *options);
  command->callback([options, &context] { context.exit_code = run(*options, context); });
}

}  // namespace

void add_bench_command(CLI::App& app, Context& context) {
  CLI::App* bench = app.add_subcommand(
      "bench", "Verified measurements of collectives (under mpirun or on threads) and of compute");
  bench->require_subcommand(1);
  for (const Subcommand& subcommand : kSubcommands) add_collective(*bench, context, subcommand);
  add_bench_gemm(*bench, context);
}

}  // namespace nqd::cli
