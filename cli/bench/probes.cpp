#include "cli/bench/probes.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cstdio>
#include <memory>
#include <string>

#include "base/units.h"
#include "cli/bench/session.h"
#include "cli/command.h"
#include "collectives/bench/memory_bench.h"
#include "collectives/bench/pair_matrix.h"
#include "collectives/bench/stragglers.h"

namespace nqd::cli {
namespace {

using collectives::BenchResult;
using collectives::Communicator;

std::uint64_t parsed_size(const std::string& flag, const std::string& text) {
  const auto bytes = parse_bytes(text);
  if (bytes && *bytes > 0) return *bytes;
  throw Error(ExitCode::kUsage, "NQD2104", flag + " does not know `" + text + "`",
              "use a size such as 4096, 4K, 64M or 1G");
}

struct MemoryFlags {
  SessionFlags session;
  std::string begin = "64K";
  std::string end = "256M";
  double factor = 4;
  int iterations = 10;
};

void print_memory_row(const collectives::MemoryRow& row) {
  const std::string who = row.rank < 0 ? "all together" : "rank " + std::to_string(row.rank);
  std::printf("  %12llu %9s %13s %12.2f %10.2f\n", static_cast<unsigned long long>(row.bytes),
              row.kernel.c_str(), who.c_str(), row.p50_s * 1e6, row.bandwidth_gbps);
  std::fflush(stdout);
}

void print_limits(const std::vector<collectives::AllReduceLimit>& limits) {
  if (limits.empty()) return;
  std::printf(
      "# limit of an all_reduce on registered buffers: the faster of copy and nt_copy, all\n"
      "# ranks together (a rank reads and writes as many bytes as a copy of its vector)\n");
  std::printf("# %12s %12s %10s\n", "size (B)", "time (us)", "busbw");
  for (const collectives::AllReduceLimit& limit : limits) {
    std::printf("  %12llu %12.2f %10.2f\n", static_cast<unsigned long long>(limit.bytes),
                limit.limit_s * 1e6, limit.limit_busbw_gbps);
  }
}

int run_memory(const MemoryFlags& flags, const Context& context) {
  constexpr std::uint64_t kLine = 64;
  collectives::BenchOptions range;
  range.begin_bytes = parsed_size("--begin", flags.begin);
  range.end_bytes = parsed_size("--end", flags.end);
  range.factor = flags.factor;
  collectives::MemoryOptions options;
  options.iterations = flags.iterations;
  for (const std::uint64_t size : collectives::sweep_sizes(range)) {
    options.sizes.push_back((size + kLine - 1) / kLine * kLine);
  }
  const double bytes = 3 * static_cast<double>(options.sizes.back());
  return run_session(
      flags.session, context, {.ranks = 1, .bytes_per_rank = bytes},
      [&](Communicator& world, BenchResult& result, bool table) {
        if (table) {
          std::printf("# nqd bench memory, %d ranks\n# %12s %9s %13s %12s %10s\n", world.size(),
                      "size (B)", "kernel", "ranks", "time (us)", "GB/s");
        }
        auto measured =
            collectives::run_memory_bench(world, options, [&](const collectives::MemoryRow& row) {
              if (table) print_memory_row(row);
            });
        result.memory_rows = std::move(measured.rows);
        result.all_reduce_limits = std::move(measured.limits);
        if (table) print_limits(result.all_reduce_limits);
      });
}

struct PairFlags {
  SessionFlags session;
  std::string size = "4M";
  int iterations = 20;
};

// A shade for each quarter of the best bandwidth; rows and columns are ranks.
void print_pairs(const std::vector<collectives::PairRow>& pairs, int ranks) {
  std::printf("# %6s %6s %12s %10s\n", "a", "b", "latency", "GB/s");
  double best = 0;
  for (const collectives::PairRow& pair : pairs) {
    best = std::max(best, pair.bandwidth_gbps);
    std::printf("  %6d %6d %12s %10.3f\n", pair.a, pair.b, format_seconds(pair.latency_s).c_str(),
                pair.bandwidth_gbps);
  }
  std::printf(
      "# bandwidth of row and column rank: # >= 3/4 of the best, + >= 1/2, - >= 1/4, . below\n");
  constexpr std::string_view kShades = ".-+#";
  for (int a = 0; a < ranks; ++a) {
    std::printf("# %5d ", a);
    for (int b = 0; b < ranks; ++b) {
      const auto pair = std::find_if(pairs.begin(), pairs.end(), [&](const auto& candidate) {
        return candidate.a == std::min(a, b) && candidate.b == std::max(a, b);
      });
      if (pair == pairs.end()) {
        std::printf("  ");
        continue;
      }
      const auto shade = static_cast<std::size_t>(4 * pair->bandwidth_gbps / best);
      std::printf(" %c", kShades[std::min<std::size_t>(shade, 3)]);
    }
    std::printf("\n");
  }
}

std::vector<std::string> hosts_of(const Communicator& world) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < world.size(); ++rank) hosts.push_back(world.host(rank));
  return hosts;
}

int run_pairs(const PairFlags& flags, const Context& context) {
  collectives::PairOptions options;
  options.large_bytes = std::max(parsed_size("--size", flags.size), collectives::kPairSmallBytes);
  options.large_iterations = flags.iterations;
  options.small_iterations = 10 * flags.iterations;
  return run_session(flags.session, context,
                     {.ranks = 2, .bytes_per_rank = static_cast<double>(options.large_bytes)},
                     [&](Communicator& world, BenchResult& result, bool table) {
                       result.pairs = collectives::run_pair_matrix(world, options);
                       judge_pairs(result.pairs, hosts_of(world), result.verdicts);
                       if (table) print_pairs(result.pairs, world.size());
                     });
}

struct StragglerFlags {
  SessionFlags session;
  collectives::StragglerOptions bench;
  double compute_ms = 10;
};

void print_stragglers(const std::vector<collectives::StragglerRow>& rows) {
  std::printf("# late behind the first rank of each iteration\n");
  std::printf("# %6s %12s %12s %7s  %s\n", "rank", "mean", "p95", "last", "host");
  for (const collectives::StragglerRow& row : rows) {
    std::printf("  %6d %12s %12s %6.0f%%  %s\n", row.rank, format_seconds(row.mean_late_s).c_str(),
                format_seconds(row.p95_late_s).c_str(), 100 * row.last_share, row.host.c_str());
  }
}

int run_stragglers(const StragglerFlags& flags, const Context& context) {
  collectives::StragglerOptions options = flags.bench;
  options.compute_s = flags.compute_ms / 1e3;
  return run_session(flags.session, context, {.ranks = 2},
                     [&](Communicator& world, BenchResult& result, bool table) {
                       result.stragglers = collectives::run_stragglers(world, options);
                       judge_stragglers(result.stragglers, options.compute_s, result.verdicts);
                       if (table) print_stragglers(result.stragglers);
                     });
}

void add_memory(CLI::App& bench, Context& context) {
  auto flags = std::make_shared<MemoryFlags>();
  CLI::App* command = bench.add_subcommand(
      "memory", "Memory bandwidth of each rank and of all together, and what it allows all_reduce");
  command->add_option("-b,--begin", flags->begin, "smallest vector: 4096, 4K, 64M (binary units)")
      ->capture_default_str();
  command->add_option("-e,--end", flags->end, "largest vector")->capture_default_str();
  command->add_option("-f,--factor", flags->factor, "next size = size x factor")
      ->capture_default_str();
  command->add_option("-n,--iterations", flags->iterations, "samples a row")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  add_session_flags(*command, flags->session);
  command->callback([flags, &context] { context.exit_code = run_memory(*flags, context); });
}

void add_pair_matrix(CLI::App& bench, Context& context) {
  auto flags = std::make_shared<PairFlags>();
  CLI::App* command = bench.add_subcommand(
      "pair-matrix", "Latency and bandwidth of every pair of ranks: finds the slow link");
  command->add_option("--size", flags->size, "bytes of a large message")->capture_default_str();
  command
      ->add_option("-n,--iterations", flags->iterations,
                   "round trips of large messages a pair; ten times as many of small ones")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  add_session_flags(*command, flags->session);
  command->callback([flags, &context] { context.exit_code = run_pairs(*flags, context); });
}

void add_stragglers(CLI::App& bench, Context& context) {
  auto flags = std::make_shared<StragglerFlags>();
  CLI::App* command = bench.add_subcommand(
      "stragglers", "How late each rank comes to an all_reduce after equal work");
  command->add_option("-n,--iterations", flags->bench.iterations, "iterations")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      ->add_option("--compute-ms", flags->compute_ms,
                   "milliseconds of work in an iteration, on the median rank")
      ->check(CLI::Range(0.01, 1e5))
      ->capture_default_str();
  add_session_flags(*command, flags->session);
  command->callback([flags, &context] { context.exit_code = run_stragglers(*flags, context); });
}

}  // namespace

void add_bench_probes(CLI::App& bench, Context& context) {
  add_memory(bench, context);
  add_pair_matrix(bench, context);
  add_stragglers(bench, context);
}

}  // namespace nqd::cli
