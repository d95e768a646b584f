#include "cli/bench/options.h"

#include <CLI/CLI.hpp>

#include "base/error.h"
#include "base/units.h"
#include "cli/bench/cluster.h"
#include "collectives/cost.h"

namespace nqd::cli {
namespace {

using collectives::Algorithm;

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
                 "auto, ring, tree, recursive_doubling, halving_doubling, hierarchical, pairwise, "
                 "linear, direct, library or all"));
    }
  }
  if (texts.empty()) bench.algorithms.push_back(Algorithm::kAuto);
}

}  // namespace

collectives::BenchOptions parsed_options(const BenchFlags& flags) {
  BenchFlags parsing = flags;
  collectives::BenchOptions& bench = parsing.bench;
  bench.begin_bytes = parsed_size("--begin", flags.begin);
  bench.end_bytes = parsed_size("--end", flags.end);
  if (!flags.step.empty()) bench.step_bytes = parsed_size("--step", flags.step);
  bench.dtype = parsed(parse_dtype(flags.dtype), "--dtype", flags.dtype,
                       "float32, float64, bfloat16, float16, int32, int64 or uint8");
  bench.op = parsed(collectives::parse_reduce_op(flags.op), "--op", flags.op,
                    "sum, avg, min, max or prod");
  bench.check = flags.check != 0;
  bench.numerics = parsed(collectives::parse_numerics(flags.numerics), "--numerics", flags.numerics,
                          "canonical or fast");
  if (!flags.cluster.empty()) bench.promised_bytes_per_s = promised_bandwidth(flags.cluster);
  parse_algorithms(flags.algorithms, bench);
  return bench;
}

void add_sweep_flags(CLI::App& command, BenchFlags& flags) {
  command.add_option("-b,--begin", flags.begin, "smallest size: 4096, 4K, 64M (binary units)")
      ->capture_default_str();
  command.add_option("-e,--end", flags.end, "largest size")->capture_default_str();
  command.add_option("-f,--factor", flags.bench.factor, "next size = size x factor")
      ->capture_default_str();
  command.add_option("-i,--step", flags.step, "next size = size + step, instead of --factor");
  command.add_option("-n,--iterations", flags.bench.iterations, "timed calls a size")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command.add_option("-w,--warmup", flags.bench.warmup, "calls before the timed ones")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("-c,--check", flags.check, "verify the result of every size: 1 or 0")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  command
      .add_option("-d,--dtype", flags.dtype,
                  "float32, float64, bfloat16, float16, int32, int64 or uint8")
      ->capture_default_str();
}

void add_run_flags(CLI::App& command, BenchFlags& flags) {
  command
      .add_option("--ranks", flags.ranks,
                  "ranks asked for: threads without a launcher, checked against mpirun's")
      ->check(CLI::Range(1, 1024));
  command
      .add_option("--backend", flags.backend,
                  "local (threads), mpi, shm (processes of one host, messages through shared "
                  "memory) or auto: mpi under mpirun, else local")
      ->capture_default_str();
  command.add_flag("--check-calls", flags.check_calls,
                   "ranks compare every call before it: a difference is named at once");
  command
      .add_option("--deadline", flags.deadline_s,
                  "seconds that a rank waits for another before it names it")
      ->check(CLI::Range(0.1, 86400.0))
      ->capture_default_str();
  command.add_flag("--json", flags.json, "print the evidence document on stdout, no table");
  command.add_option("--output", flags.output, "write the evidence document to this file");
  command
      .add_option("--cluster", flags.cluster,
                  "a cluster preset or file whose network the verdicts hold the run to")
      ->type_name("FILE");
  command.add_option("--compare", flags.compare,
                     "an earlier bench document: exit 1 when a row is slower beyond --tolerance");
  command.add_option("--tolerance", flags.tolerance, "share by which a median may be slower")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
}

}  // namespace nqd::cli
