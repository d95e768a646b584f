#include "collectives/bench/bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <utility>

#include "collectives/bench/canonical_choice.h"
#include "collectives/bench/operation.h"
#include "collectives/bench/verdicts.h"
#include "collectives/cost.h"
#include "collectives/host_map.h"

namespace nqd::collectives {
namespace {

std::string transport_name(const Communicator& world) {
  return world.backend() == "local" ? "threads" : std::string(world.backend());
}

// Runs the rows of one sweep.
class Sweep {
 public:
  Sweep(Communicator& world, const BenchOptions& options)
      : world_(world),
        options_(options),
        hosts_(host_map_of(world)),
        operation_(world, options, effective(options.end_bytes)) {}

  BenchRow measure(std::uint64_t requested_bytes, Algorithm algorithm);
  // Whether some rank's counted traffic differed from cost.h in the last row.
  bool miscounted() const { return miscounted_; }

 private:
  std::size_t effective(std::uint64_t requested_bytes) const {
    const std::size_t element = size_bytes(options_.dtype);
    return requested_bytes / element * element;
  }
  void verify(Algorithm algorithm, BenchRow& row);
  void count(Algorithm algorithm, BenchRow& row);
  void time(Algorithm algorithm, BenchRow& row);
  void summarize(BenchRow& row) const;
  // Collective. Every rank gets the reduction.
  std::uint64_t over_ranks(std::uint64_t value, ReduceOp op);

  Communicator& world_;
  const BenchOptions& options_;
  const HostMap hosts_;
  Operation operation_;
  bool miscounted_ = false;
};

std::uint64_t Sweep::over_ranks(std::uint64_t value, ReduceOp op) {
  auto number = static_cast<std::int64_t>(value);
  const auto bytes = std::as_writable_bytes(std::span(&number, 1));
  world_.all_reduce(bytes, bytes, DType::kInt64, op);
  return static_cast<std::uint64_t>(number);
}

BenchRow Sweep::measure(std::uint64_t requested_bytes, Algorithm algorithm) {
  BenchRow row;
  row.collective = name(options_.collective);
  row.backend = world_.backend();
  row.transport = transport_name(world_);
  row.algorithm = name(algorithm);
  row.in_place = options_.in_place || options_.collective == Collective::kBroadcast;
  row.registered = options_.registered;
  row.dtype = name(options_.dtype);
  row.op = name(options_.op);
  row.numerics = name(options_.numerics);
  row.requested_bytes = requested_bytes;
  row.effective_bytes = effective(requested_bytes);
  row.ranks = world_.size();
  operation_.resize(row.effective_bytes);
  verify(algorithm, row);
  time(algorithm, row);
  summarize(row);
  return row;
}

void Sweep::verify(Algorithm algorithm, BenchRow& row) {
  operation_.fill();
  world_.reset_traffic();
  operation_.call(algorithm);
  count(algorithm, row);
  row.checked = options_.check;
  if (options_.check) row.wrong = over_ranks(operation_.count_wrong(), ReduceOp::kSum);
}

void Sweep::count(Algorithm algorithm, BenchRow& row) {
  const TrafficCount counted = world_.traffic().at({world_.group(), options_.collective});
  miscounted_ = false;
  if (algorithm == Algorithm::kLibrary) return;
  const std::size_t elements = row.effective_bytes / size_bytes(options_.dtype);
  const RankTraffic predicted =
      rank_traffic(hosts_, options_.collective, algorithm, static_cast<std::size_t>(world_.rank()),
                   elements, size_bytes(options_.dtype));
  const bool differs =
      counted.bytes_sent != predicted.bytes_sent || counted.messages != predicted.messages;
  row.bytes_sent_per_rank = over_ranks(counted.bytes_sent, ReduceOp::kMax);
  row.predicted_bytes_per_rank =
      max_traffic(hosts_, options_.collective, algorithm, elements, size_bytes(options_.dtype))
          .bytes_sent;
  miscounted_ = over_ranks(differs ? 1 : 0, ReduceOp::kMax) != 0;
}

void Sweep::time(Algorithm algorithm, BenchRow& row) {
  using Clock = std::chrono::steady_clock;
  for (int i = 0; i < options_.warmup; ++i) operation_.call(algorithm);
  row.samples_s.resize(static_cast<std::size_t>(options_.iterations));
  const UsageMeter meter;
  for (double& sample : row.samples_s) {
    world_.barrier();
    const auto start = Clock::now();
    operation_.call(algorithm);
    sample = std::chrono::duration<double>(Clock::now() - start).count();
  }
  row.usage = gather_usage(world_, meter.per_call(static_cast<int>(row.samples_s.size())));
  const auto samples = std::as_writable_bytes(std::span(row.samples_s));
  world_.all_reduce(samples, samples, DType::kFloat64, ReduceOp::kMax);
}

void Sweep::summarize(BenchRow& row) const {
  row.min_s = percentile(row.samples_s, 0);
  row.p50_s = percentile(row.samples_s, 0.5);
  row.p95_s = percentile(row.samples_s, 0.95);
  row.p99_s = percentile(row.samples_s, 0.99);
  row.max_s = percentile(row.samples_s, 1);
  row.algbw_gbps = static_cast<double>(row.effective_bytes) / row.p50_s / 1e9;
  row.busbw_gbps =
      row.algbw_gbps * bus_factor(options_.collective, static_cast<std::size_t>(row.ranks));
}

void check_options(const Communicator& world, const BenchOptions& options) {
  if (world.size() == 1) {
    throw Error(ExitCode::kNo, "NQD3005",
                "a collective of one rank moves no data, so there is nothing to measure: this "
                "process was launched as a singleton",
                "start it with `mpirun -n 2 nqd bench ...`, or pass --ranks 2 for threads");
  }
  if (options.begin_bytes < size_bytes(options.dtype)) {
    throw Error(ExitCode::kUsage, "NQD2104",
                std::to_string(options.begin_bytes) + " bytes hold no whole " +
                    std::string(name(options.dtype)),
                "give --begin at least " + std::to_string(size_bytes(options.dtype)));
  }
  const bool none = options.algorithms.empty() && !options.all_algorithms;
  if (options.iterations < 1 || options.warmup < 0 || none) {
    throw Error(ExitCode::kUsage, "NQD2104",
                "a sweep needs an algorithm, one or more iterations and no negative warm-up",
                "give --iterations 1 or more");
  }
}

bool has_library(const Communicator& world, const BenchOptions& options) {
  return options.collective == Collective::kAllReduce && world.backend() != "local" &&
         options.dtype != DType::kBFloat16 && options.dtype != DType::kFloat16;
}

// Every algorithm that can run here, the library's last.
std::vector<Algorithm> every_algorithm(const Communicator& world, const BenchOptions& options) {
  constexpr std::array kMessages = {Algorithm::kRing,
                                    Algorithm::kTree,
                                    Algorithm::kRecursiveDoubling,
                                    Algorithm::kHalvingDoubling,
                                    Algorithm::kPairwise,
                                    Algorithm::kLinear};
  std::vector<Algorithm> algorithms;
  for (const Algorithm algorithm : kMessages) {
    if (is_executable(options.collective, algorithm) &&
        has_cost(options.collective, algorithm, static_cast<std::size_t>(world.size()))) {
      algorithms.push_back(algorithm);
    }
  }
  if (is_executable(options.collective, Algorithm::kHierarchical) &&
      host_map_of(world).has_two_levels()) {
    algorithms.push_back(Algorithm::kHierarchical);
  }
  if (world.chosen(options.collective, Algorithm::kAuto) == Algorithm::kDirect) {
    algorithms.push_back(Algorithm::kDirect);
  }
  if (has_library(world, options)) algorithms.push_back(Algorithm::kLibrary);
  return algorithms;
}

// The algorithms that will run, named as what they are. Refuses before the first message: a rank
// that failed in the middle of a sweep would look lost to the others.
std::vector<Algorithm> resolve_all(const Communicator& world, const BenchOptions& options) {
  if (options.numerics == Numerics::kCanonical) {
    return canonical_algorithms(
        world, options,
        options.all_algorithms ? every_algorithm(world, options) : options.algorithms);
  }
  if (options.all_algorithms) return every_algorithm(world, options);
  std::vector<Algorithm> algorithms;
  for (const Algorithm algorithm : options.algorithms) {
    if (algorithm == Algorithm::kLibrary && !has_library(world, options)) {
      throw Error(ExitCode::kUsage, "NQD2102",
                  "there is no library " + std::string(name(options.collective)) + " of " +
                      std::string(name(options.dtype)) + " on the " + std::string(world.backend()) +
                      " backend",
                  "use another algorithm, or all_reduce of float32 under mpirun for MPI_Allreduce");
    }
    algorithms.push_back(world.chosen(options.collective, algorithm));
  }
  return algorithms;
}

BenchResult sweep(Communicator& world, const BenchOptions& options,
                  const std::function<void(const BenchRow&)>& on_row) {
  check_options(world, options);
  const std::vector<std::uint64_t> sizes = sweep_sizes(options);
  BenchResult result;
  result.options = options;
  result.options.algorithms = resolve_all(world, options);
  result.machine = begin_record(world);
  Sweep rows(world, result.options);
  std::vector<std::size_t> miscounted;
  for (const Algorithm algorithm : result.options.algorithms) {
    for (const std::uint64_t size : sizes) {
      result.rows.push_back(rows.measure(size, at_size(world, options, algorithm, size)));
      if (rows.miscounted()) miscounted.push_back(result.rows.size() - 1);
      if (on_row && world.rank() == 0) on_row(result.rows.back());
    }
  }
  finish_record(world, result.machine);
  world.reset_traffic();
  result.verdicts = judge({.rows = result.rows,
                           .miscounted_rows = std::move(miscounted),
                           .machine = result.machine,
                           .ranks_are_processes = world.backend() != "local",
                           .promised_bytes_per_s = options.promised_bytes_per_s});
  return result;
}

}  // namespace

BenchResult run_bench(Communicator& world, const BenchOptions& options,
                      const std::function<void(const BenchRow&)>& on_row) {
  try {
    return sweep(world, options, on_row);
  } catch (Error& error) {
    // What is wrong with the options is wrong on every rank: one says so.
    const bool shared = error.exit_code() == ExitCode::kUsage || error.exit_code() == ExitCode::kNo;
    if (shared && world.rank() != 0) error.set_quiet(true);
    throw;
  }
}

}  // namespace nqd::collectives
