#include "collectives/bench/bench.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <optional>
#include <utility>

#include "collectives/bench/canonical_choice.h"
#include "collectives/bench/device.h"
#include "collectives/bench/operation.h"
#include "collectives/bench/timing.h"
#include "collectives/bench/verdicts.h"
#include "collectives/cost.h"
#include "collectives/host_map.h"

namespace nqd::collectives {
namespace {

using Clock = std::chrono::steady_clock;

std::string transport_name(const Communicator& world) {
  return world.backend() == "local" ? "threads" : std::string(world.backend());
}

// Runs the rows of one sweep.
class Sweep {
 public:
  Sweep(Communicator& world, const BenchOptions& options, BenchDevice* device)
      : world_(world), options_(options), device_(device), hosts_(host_map_of(world)) {}

  BenchRow begin(std::uint64_t requested_bytes, Algorithm algorithm) const;
  // One repeat of the row, and its statistics.
  void measure(BenchRow& row, Algorithm algorithm);
  // What the device's library expects of the last row's call.
  std::optional<double> estimate_s() { return operation_->estimate_s(); }
  // Whether some rank's counted traffic differed from cost.h in the last row.
  bool miscounted() const { return miscounted_; }

 private:
  std::size_t effective(std::uint64_t requested_bytes) const {
    const std::size_t element = size_bytes(options_.dtype);
    return requested_bytes / element * element;
  }
  void verify(Algorithm algorithm, BenchRow& row);
  // What cost.h says that this rank sends; nothing where it does not say it.
  std::optional<RankTraffic> predicted(Algorithm algorithm, const BenchRow& row, int rank) const;
  void count(Algorithm algorithm, BenchRow& row);
  // The samples; `row` gets the usage alone.
  std::vector<double> time(Algorithm algorithm, BenchRow& row);
  // Appends `calls` samples, each the maximum over ranks.
  void time_calls(Algorithm algorithm, std::size_t calls, std::vector<double>& samples);
  // Collective. As rank 0 decides it.
  std::size_t agreed_calls(const std::vector<double>& samples, double elapsed_s);
  void summarize(BenchRow& row) const;
  // Collective. Every rank gets the reduction.
  std::uint64_t over_ranks(std::uint64_t value, ReduceOp op);

  Communicator& world_;
  const BenchOptions& options_;
  BenchDevice* const device_;
  const HostMap hosts_;
  // Of the last algorithm: each has buffers of its own, so that none profits from another's.
  std::optional<Operation> operation_;
  Algorithm last_ = Algorithm::kAuto;
  bool miscounted_ = false;
};

std::uint64_t Sweep::over_ranks(std::uint64_t value, ReduceOp op) {
  auto number = static_cast<std::int64_t>(value);
  const auto bytes = std::as_writable_bytes(std::span(&number, 1));
  world_.all_reduce(bytes, bytes, DType::kInt64, op);
  return static_cast<std::uint64_t>(number);
}

BenchRow Sweep::begin(std::uint64_t requested_bytes, Algorithm algorithm) const {
  BenchRow row;
  row.collective = bench_name(options_);
  row.backend = device_ != nullptr ? device_->backend() : world_.backend();
  row.transport = device_ != nullptr ? row.backend : transport_name(world_);
  row.algorithm = name(algorithm);
  row.in_place = options_.in_place || options_.collective == Collective::kBroadcast;
  row.registered = options_.registered;
  row.dtype = name(options_.dtype);
  row.op = name(options_.op);
  row.numerics = name(options_.numerics);
  row.requested_bytes = requested_bytes;
  row.effective_bytes = effective(requested_bytes);
  row.ranks = options_.pair ? 2 : world_.size();
  return row;
}

void Sweep::measure(BenchRow& row, Algorithm algorithm) {
  if (!operation_ || last_ != algorithm) {
    operation_.reset();
    operation_.emplace(world_, options_, effective(options_.end_bytes), device_);
    last_ = algorithm;
  }
  operation_->resize(row.effective_bytes);
  row.copies = static_cast<int>(operation_->copies());
  verify(algorithm, row);
  const std::vector<double> samples = time(algorithm, row);
  row.repeat_p50_s.push_back(percentile(samples, 0.5));
  row.samples_s.insert(row.samples_s.end(), samples.begin(), samples.end());
  summarize(row);
}

void Sweep::verify(Algorithm algorithm, BenchRow& row) {
  operation_->fill();
  world_.reset_traffic();
  operation_->call(algorithm);
  count(algorithm, row);
  row.checked = options_.check;
  if (options_.check) row.wrong += over_ranks(operation_->count_wrong(), ReduceOp::kSum);
}

std::optional<RankTraffic> Sweep::predicted(Algorithm algorithm, const BenchRow& row,
                                            int rank) const {
  // The parts of a vector belong to ranks as they are, so another root is not rank 0 by rotation.
  if (algorithm == Algorithm::kLibrary || options_.root != 0) return std::nullopt;
  if (options_.pair && rank != options_.pair->front() && rank != options_.pair->back()) {
    return RankTraffic{};
  }
  const std::size_t element = size_bytes(options_.dtype);
  return rank_traffic(hosts_, options_.collective, algorithm, static_cast<std::size_t>(rank),
                      row.effective_bytes / element, element);
}

void Sweep::count(Algorithm algorithm, BenchRow& row) {
  const Traffic traffic = world_.traffic();
  const auto found = traffic.find({world_.group(), options_.collective});
  const TrafficCount counted = found == traffic.end() ? TrafficCount{} : found->second;
  miscounted_ = false;
  if (algorithm == Algorithm::kLibrary) return;
  row.bytes_sent_per_rank = over_ranks(counted.bytes_sent, ReduceOp::kMax);
  const auto mine = predicted(algorithm, row, world_.rank());
  if (!mine) return;
  for (int rank = 0; rank < world_.size(); ++rank) {
    row.predicted_bytes_per_rank =
        std::max(row.predicted_bytes_per_rank, predicted(algorithm, row, rank)->bytes_sent);
  }
  const bool differs = counted.bytes_sent != mine->bytes_sent || counted.messages != mine->messages;
  miscounted_ = over_ranks(differs ? 1 : 0, ReduceOp::kMax) != 0;
}

void Sweep::time_calls(Algorithm algorithm, std::size_t calls, std::vector<double>& samples) {
  const std::size_t before = samples.size();
  samples.resize(before + calls);
  const auto batch = std::span(samples).subspan(before);
  if (device_ != nullptr) {
    world_.barrier();
    std::ranges::copy(operation_->time(calls), batch.begin());
  }
  for (double& sample : batch) {
    if (device_ == nullptr) {
      world_.barrier();
      const auto start = Clock::now();
      operation_->call(algorithm);
      sample = std::chrono::duration<double>(Clock::now() - start).count();
    }
    if (options_.pair) sample /= 2;
  }
  const auto bytes = std::as_writable_bytes(batch);
  world_.all_reduce(bytes, bytes, DType::kFloat64, ReduceOp::kMax);
}

std::size_t Sweep::agreed_calls(const std::vector<double>& samples, double elapsed_s) {
  std::uint64_t calls = next_calls(samples, elapsed_s, options_.time_s,
                                   static_cast<std::size_t>(options_.iterations));
  world_.broadcast(std::as_writable_bytes(std::span(&calls, 1)), 0);
  return calls;
}

std::vector<double> Sweep::time(Algorithm algorithm, BenchRow& row) {
  constexpr int kFirstCalls = 5;
  for (int i = 0; i < options_.warmup; ++i) operation_->call(algorithm);
  std::vector<double> samples;
  const bool bounded = options_.time_s > 0;
  const UsageMeter meter;
  const auto start = Clock::now();
  const int first = bounded ? std::min(options_.iterations, kFirstCalls) : options_.iterations;
  time_calls(algorithm, static_cast<std::size_t>(first), samples);
  while (bounded) {
    const double elapsed_s = std::chrono::duration<double>(Clock::now() - start).count();
    const std::size_t calls = agreed_calls(samples, elapsed_s);
    if (calls == 0) break;
    time_calls(algorithm, calls, samples);
  }
  row.usage = gather_usage(world_, meter.per_call(static_cast<int>(samples.size())));
  return samples;
}

void Sweep::summarize(BenchRow& row) const {
  row.min_s = percentile(row.samples_s, 0);
  row.p50_s = percentile(row.samples_s, 0.5);
  row.p95_s = percentile(row.samples_s, 0.95);
  row.p99_s = percentile(row.samples_s, 0.99);
  row.max_s = percentile(row.samples_s, 1);
  const MedianInterval interval = median_interval(row.samples_s).value_or(MedianInterval{});
  row.p50_low_s = interval.low;
  row.p50_high_s = interval.high;
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
  if (options.iterations < 1 || options.repeat < 1 || options.warmup < 0 || none) {
    throw Error(ExitCode::kUsage, "NQD2104",
                "a sweep needs an algorithm, one or more iterations and repeats, and no negative "
                "warm-up",
                "give --iterations 1 or more");
  }
  std::vector<int> named = {options.root};
  if (options.pair) named.insert(named.end(), options.pair->begin(), options.pair->end());
  for (const int rank : named) {
    if (rank >= 0 && rank < world.size()) continue;
    throw Error(ExitCode::kUsage, "NQD2104",
                "there is no rank " + std::to_string(rank) + " among " +
                    std::to_string(world.size()) + " ranks",
                "ranks count from 0: give --root or --pair ranks of the world");
  }
  if (options.pair && options.pair->front() == options.pair->back()) {
    throw Error(ExitCode::kUsage, "NQD2104",
                "rank " + std::to_string(options.pair->front()) + " has no pingpong with itself",
                "give --pair two ranks, as --pair 0,1");
  }
}

bool reduces(Collective collective) {
  return collective == Collective::kAllReduce || collective == Collective::kReduceScatter ||
         collective == Collective::kReduce;
}

// Why the library cannot run this; empty where it can.
std::string library_lack(const Communicator& world, const BenchOptions& options) {
  if (world.backend() == "local") {
    return "there is no library of collectives on the " + std::string(world.backend()) + " backend";
  }
  const bool half = options.dtype == DType::kBFloat16 || options.dtype == DType::kFloat16;
  if (half && reduces(options.collective)) {
    return "there is no library " + std::string(name(options.collective)) + " of " +
           std::string(name(options.dtype)) + ": MPI has no such type";
  }
  if (options.in_place && options.collective == Collective::kReduceScatter) {
    return "MPI_Reduce_scatter in place leaves the result at the vector's begin, not in the "
           "chunk's place";
  }
  return {};
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
  if (options.collective == Collective::kSendRecv) algorithms.push_back(Algorithm::kAuto);
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
  if (library_lack(world, options).empty()) algorithms.push_back(Algorithm::kLibrary);
  return algorithms;
}

// What will run; auto stays, since it may change with the size. Refuses before the first message: a
// rank that failed in the middle of a sweep would look lost to the others.
std::vector<Algorithm> checked_algorithms(const Communicator& world, const BenchOptions& options) {
  if (options.numerics == Numerics::kCanonical) {
    return canonical_algorithms(
        world, options,
        options.all_algorithms ? every_algorithm(world, options) : options.algorithms);
  }
  if (options.all_algorithms) return every_algorithm(world, options);
  std::vector<Algorithm> algorithms;
  for (const Algorithm algorithm : options.algorithms) {
    if (algorithm == Algorithm::kLibrary) {
      if (const std::string lack = library_lack(world, options); !lack.empty()) {
        throw Error(ExitCode::kUsage, "NQD2102", lack,
                    "use another algorithm; the library's need mpirun, and float32 to reduce");
      }
    }
    const Algorithm runs = world.chosen(options.collective, algorithm);
    algorithms.push_back(algorithm == Algorithm::kAuto ? algorithm : runs);
  }
  return algorithms;
}

// With a device, whose library chooses its algorithms.
void judge_library(const Findings& findings, std::vector<Verdict>& verdicts) {
  judge_rows(findings, verdicts);
  judge_placement(findings, verdicts);
}

DeviceSweep sweep(Communicator& world, const BenchOptions& options, BenchDevice* device,
                  const std::function<void(const BenchRow&)>& on_row) {
  check_options(world, options);
  const std::vector<std::uint64_t> sizes = sweep_sizes(options);
  DeviceSweep all;
  BenchResult& result = all.result;
  result.options = options;
  result.options.algorithms =
      device != nullptr ? std::vector{Algorithm::kLibrary} : checked_algorithms(world, options);
  result.machine = begin_record(world);
  if (options.cold) result.options.cache_bytes = last_level_cache_bytes();
  Sweep rows(world, result.options, device);
  std::vector<Algorithm> algorithms;  // of the rows
  for (const Algorithm algorithm : result.options.algorithms) {
    for (const std::uint64_t size : sizes) {
      const std::uint64_t bytes = size / size_bytes(options.dtype) * size_bytes(options.dtype);
      algorithms.push_back(
          device != nullptr
              ? algorithm
              : world.chosen(options.collective, at_size(world, options, algorithm, bytes), bytes));
      result.rows.push_back(rows.begin(size, algorithms.back()));
      result.rows.back().requested_algorithm = name(algorithm);
    }
  }
  all.estimates_s.resize(result.rows.size());
  std::vector<std::size_t> miscounted;
  const std::vector<std::size_t> order =
      sweep_order(result.rows.size(), options.repeat, options.seed);
  for (std::size_t at = 0; at < order.size(); ++at) {
    BenchRow& row = result.rows[order[at]];
    row.order.push_back(static_cast<int>(at));
    rows.measure(row, algorithms[order[at]]);
    if (rows.miscounted()) miscounted.push_back(order[at]);
    if (device != nullptr) all.estimates_s[order[at]] = rows.estimate_s();
    const bool complete = row.order.size() == static_cast<std::size_t>(options.repeat);
    if (complete && on_row && world.rank() == 0) on_row(row);
  }
  finish_record(world, result.machine);
  world.reset_traffic();
  const Findings findings = {.rows = result.rows,
                             .miscounted_rows = std::move(miscounted),
                             .machine = result.machine,
                             .ranks_are_processes = world.backend() != "local",
                             .promised_bytes_per_s = options.promised_bytes_per_s};
  if (device != nullptr) {
    judge_library(findings, result.verdicts);
  } else {
    result.verdicts = judge(findings);
  }
  return all;
}

DeviceSweep quiet_sweep(Communicator& world, const BenchOptions& options, BenchDevice* device,
                        const std::function<void(const BenchRow&)>& on_row) {
  try {
    return sweep(world, options, device, on_row);
  } catch (Error& error) {
    // What is wrong with the options is wrong on every rank: one says so.
    const bool shared = error.exit_code() == ExitCode::kUsage || error.exit_code() == ExitCode::kNo;
    if (shared && world.rank() != 0) error.set_quiet(true);
    throw;
  }
}

}  // namespace

BenchResult run_bench(Communicator& world, const BenchOptions& options,
                      const std::function<void(const BenchRow&)>& on_row) {
  return quiet_sweep(world, options, nullptr, on_row).result;
}

DeviceSweep run_bench(Communicator& world, const BenchOptions& options, BenchDevice& device,
                      const std::function<void(const BenchRow&)>& on_row) {
  return quiet_sweep(world, options, &device, on_row);
}

}  // namespace nqd::collectives
