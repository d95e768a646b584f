#include "cli/bench/options.h"

#include <CLI/CLI.hpp>
#include <array>
#include <cstdio>
#include <cstdlib>

#include "base/error.h"
#include "base/units.h"
#include "cli/bench/cluster.h"
#include "cli/bench/tuning.h"
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

// "2s", "500ms", "1.5m"; seconds without a unit.
double parsed_seconds(const std::string& flag, const std::string& text) {
  std::optional<double> seconds;
  char* end = nullptr;
  const double number = std::strtod(text.c_str(), &end);
  const std::string unit = end;
  const double scale = unit.empty() || unit == "s" ? 1 : unit == "ms" ? 1e-3 : unit == "m" ? 60 : 0;
  constexpr double kMost = 86'400;
  if (end != text.c_str() && number * scale > 0 && number * scale <= kMost) {
    seconds = number * scale;
  }
  return parsed(seconds, flag, text, "a duration such as 2s or 500ms, at most a day");
}

std::array<int, 2> parsed_pair(const std::string& text) {
  std::optional<std::array<int, 2>> pair;
  std::array<int, 2> ranks{};
  int length = 0;
  const int found = std::sscanf(text.c_str(), "%d,%d%n", &ranks[0], &ranks[1], &length);
  if (found == 2 && static_cast<std::size_t>(length) == text.size()) pair = ranks;
  return parsed(pair, "--pair", text, "two ranks, as 0,1");
}

// Also the names of nccl-tests.
std::optional<DType> dtype_named(const std::string& text) {
  if (text == "float") return DType::kFloat32;
  if (text == "double") return DType::kFloat64;
  if (text == "half") return DType::kFloat16;
  return parse_dtype(text);
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
  bench.dtype = parsed(dtype_named(flags.dtype), "--dtype", flags.dtype,
                       "float32, float64, bfloat16, float16, int32, int64 or uint8");
  bench.op = parsed(collectives::parse_reduce_op(flags.op), "--op", flags.op,
                    "sum, avg, min, max or prod");
  bench.check = flags.check != 0;
  bench.numerics = parsed(collectives::parse_numerics(flags.numerics), "--numerics", flags.numerics,
                          "canonical or fast");
  if (!flags.cluster.empty() && !is_calibration(flags.cluster)) {
    bench.promised_bytes_per_s = promised_bandwidth(flags.cluster);
  }
  if (!flags.time.empty()) bench.time_s = parsed_seconds("--time", flags.time);
  if (bench.pair) bench.pair = parsed_pair(flags.pair);
  parse_algorithms(flags.algorithms, bench);
  return bench;
}

void add_sweep_flags(CLI::App& command, BenchFlags& flags) {
  command
      .add_option("-b,--begin,--minbytes", flags.begin,
                  "smallest size: 4096, 4K, 64M (binary units)")
      ->capture_default_str();
  command.add_option("-e,--end,--maxbytes", flags.end, "largest size")->capture_default_str();
  command.add_option("-f,--factor,--stepfactor", flags.bench.factor, "next size = size x factor")
      ->capture_default_str();
  command.add_option("-i,--step,--stepbytes", flags.step,
                     "next size = size + step, instead of --factor");
  command
      .add_option("-n,--iterations,--iters", flags.bench.iterations,
                  "timed calls a size; with --time the most between two looks at the clock")
      ->check(CLI::Range(1, 1'000'000))
      ->capture_default_str();
  command
      .add_option("-w,--warmup,--warmup_iters", flags.bench.warmup, "calls before the timed ones")
      ->check(CLI::Range(0, 1'000'000))
      ->capture_default_str();
  command.add_option("-c,--check", flags.check, "verify the result of every size: 1 or 0")
      ->check(CLI::Range(0, 1))
      ->capture_default_str();
  command
      .add_option("-d,--dtype,--datatype", flags.dtype,
                  "float32, float64, bfloat16, float16, int32, int64 or uint8")
      ->capture_default_str();
  command.add_option("--time", flags.time,
                     "call until the median is known to 2 % (95 % interval), or for so long: 2s, "
                     "500ms; for each row and repeat");
  command
      .add_option("--repeat", flags.bench.repeat,
                  "sweeps whose samples are pooled; more than one run in an order that --seed "
                  "shuffles")
      ->check(CLI::Range(1, 10'000))
      ->capture_default_str();
  command.add_option("--seed", flags.bench.seed, "of the order of repeated sweeps")
      ->capture_default_str();
  command.add_flag("--cold", flags.bench.cold,
                   "calls rotate through copies of the vectors that fill the last-level cache "
                   "twice");
}

void add_run_flags(CLI::App& command, BenchFlags& flags) {
  add_session_flags(command, flags.session);
  command
      .add_option("--backend", flags.backend,
                  "local (threads), mpi, shm (processes of one host, messages through shared "
                  "memory), nccl (device buffers, a GPU a rank) or auto: mpi under mpirun, else "
                  "local")
      ->capture_default_str();
  command.add_flag("--graph", flags.graph,
                   "with --backend nccl: capture a call as a CUDA graph, and launch that");
  command.add_flag("--check-calls", flags.check_calls,
                   "ranks compare every call before it: a difference is named at once");
  command
      .add_option(
          "--cluster", flags.cluster,
          "a cluster preset or file whose network the verdicts hold the run to, or a file of "
          "nqd calibrate, whose crossovers are what auto runs")
      ->type_name("FILE");
  command.add_option("--compare", flags.compare,
                     "an earlier bench document: exit 1 when a row is slower beyond --tolerance");
  command
      .add_option("--append", flags.append,
                  "add a line of JSON to this file for each row as it completes, after a header")
      ->type_name("FILE");
  command
      .add_option("--expect", flags.expect,
                  "thresholds (YAML or JSON): exit 1 when a row misses one of its collective")
      ->type_name("FILE");
  command.add_option("--tolerance", flags.tolerance, "share by which a median may be slower")
      ->check(CLI::Range(0.0, 100.0))
      ->capture_default_str();
}

}  // namespace nqd::cli
