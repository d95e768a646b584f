#include "collectives/simulation/simulation.h"

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <exception>
#include <span>
#include <string>
#include <thread>

#include "base/error.h"
#include "collectives/dispatch.h"
#include "collectives/scratch.h"
#include "collectives/simulation/recorder.h"

namespace nqd::collectives {
namespace {

constexpr std::array kSimulated = {Collective::kAllReduce, Collective::kAllGather,
                                   Collective::kReduceScatter, Collective::kBroadcast};
constexpr std::array kAlgorithms = {Algorithm::kRing, Algorithm::kTree,
                                    Algorithm::kRecursiveDoubling, Algorithm::kHalvingDoubling,
                                    Algorithm::kHierarchical};

// Algorithms that work in the vector itself, where the snapshots can see them.
bool is_shown(Collective collective, Algorithm algorithm) {
  const bool only_all_reduce = algorithm == Algorithm::kRecursiveDoubling ||
                               algorithm == Algorithm::kHalvingDoubling ||
                               algorithm == Algorithm::kHierarchical;
  return std::find(kSimulated.begin(), kSimulated.end(), collective) != kSimulated.end() &&
         std::find(kAlgorithms.begin(), kAlgorithms.end(), algorithm) != kAlgorithms.end() &&
         is_executable(collective, algorithm) &&
         (!only_all_reduce || collective == Collective::kAllReduce);
}

std::string what_can_be_simulated() {
  std::string text;
  for (const Collective collective : kSimulated) {
    for (const Algorithm algorithm : kAlgorithms) {
      if (!is_shown(collective, algorithm)) continue;
      text += (text.empty() ? "" : ", ") + std::string(name(collective)) + " " +
              std::string(name(algorithm));
    }
  }
  return text;
}

Algorithm runnable(Collective collective, Algorithm algorithm) {
  const Algorithm known = known_algorithm(collective, algorithm).value_or(algorithm);
  if (is_shown(collective, known)) return known;
  throw Error(ExitCode::kUsage, "NQD2105",
              (algorithm == Algorithm::kAuto ? "" : std::string(name(algorithm)) + " ") +
                  std::string(name(collective)) + " is not run by nqd, so it cannot be simulated",
              "these can: " + what_can_be_simulated() + "; `nqd calc comm` prices the others");
}

// Provenance rides through a second run as numbers: element e of c summed inputs is c·(e·K + 1).
constexpr std::int64_t kPlace = std::int64_t{1} << 20;
struct Provenance {
  explicit Provenance(std::int64_t value)
      : contributions(static_cast<std::size_t>(value % kPlace)),
        element(contributions == 0 ? 0 : static_cast<std::size_t>(value / kPlace) / contributions) {
  }
  std::size_t contributions;
  std::size_t element;
};

struct Run {
  std::vector<RecordedMessage> messages;
  std::vector<std::vector<Snapshot>> snapshots;
  std::vector<RankTraffic> sent;
};

// The collective in place on `vector`, as the rank of the transport.
void call(Transport& transport, const SimulationOptions& options, std::span<std::byte> vector,
          DType type, ReduceOp op) {
  Scratch scratch;
  const Chunk own =
      chunk_of(options.elements, options.ranks, static_cast<std::size_t>(transport.rank()));
  const auto chunk = vector.subspan(own.begin * size_bytes(type), own.count * size_bytes(type));
  const bool gathers = options.collective == Collective::kAllGather;
  const bool scatters = options.collective == Collective::kReduceScatter;
  run_collective(
      transport, scratch,
      {options.collective, gathers ? chunk : vector, scatters ? chunk : vector, type, op},
      options.algorithm);
}

bool has_input(const SimulationOptions& options, std::size_t rank, std::size_t element) {
  if (options.collective == Collective::kBroadcast) return rank == 0;
  if (options.collective != Collective::kAllGather) return true;
  const Chunk own = chunk_of(options.elements, options.ranks, rank);
  return element >= own.begin && element < own.begin + own.count;
}

// One run on threads; `input` gives what a rank starts with where it has input, else 0.
template <typename Number, typename Input>
Run run(const SimulationOptions& options, DType type, ReduceOp op, const Input& input) {
  Recorder recorder(options.ranks);
  const std::vector<std::string> hosts = simulated_hosts(options.ranks, options.ranks_per_node);
  Run run;
  run.sent.resize(options.ranks);
  const auto body = [&](std::size_t rank) {
    try {
      std::vector<Number> vector(options.elements);
      for (std::size_t e = 0; e < vector.size(); ++e) {
        if (has_input(options, rank, e)) vector[e] = input(rank, e);
      }
      const auto bytes = std::as_writable_bytes(std::span(vector));
      RecordingTransport transport(recorder, rank, hosts, bytes);
      transport.take_snapshot();
      call(transport, options, bytes, type, op);
      transport.take_snapshot();
      const TrafficCount count = transport.traffic().at({"simulation", options.collective});
      run.sent[rank] = {count.messages, count.bytes_sent};
    } catch (...) {
      recorder.fail(std::current_exception());
    }
  };
  std::vector<std::thread> threads;
  try {
    for (std::size_t rank = 0; rank < options.ranks; ++rank) threads.emplace_back(body, rank);
  } catch (...) {
    recorder.fail(std::current_exception());
  }
  for (std::thread& thread : threads) thread.join();
  recorder.rethrow_failure();
  run.messages = recorder.take_messages();
  run.snapshots = std::move(recorder.snapshots);
  return run;
}

template <typename Number>
std::vector<Number> numbers(const std::vector<std::byte>& bytes) {
  std::vector<Number> numbers(bytes.size() / sizeof(Number));
  if (!bytes.empty()) std::memcpy(numbers.data(), bytes.data(), bytes.size());
  return numbers;
}

// The vectors of one rank after each step 0 … steps, from the steps at which they changed.
template <typename Number>
std::vector<std::vector<Number>> by_step(const std::vector<Snapshot>& snapshots,
                                         std::size_t steps) {
  std::vector<std::vector<Number>> vectors;
  std::size_t at = 0;
  for (std::size_t step = 0; step <= steps; ++step) {
    while (at + 1 < snapshots.size() && snapshots[at + 1].step <= step) ++at;
    vectors.push_back(numbers<Number>(snapshots[at].vector));
  }
  return vectors;
}

}  // namespace

std::vector<std::string> simulated_hosts(std::size_t ranks, std::size_t ranks_per_node) {
  std::vector<std::string> hosts;
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    hosts.push_back("node" + std::to_string(rank / ranks_per_node));
  }
  return hosts;
}

Simulation simulate(const SimulationOptions& asked) {
  SimulationOptions options = asked;
  if (options.ranks_per_node == 0) options.ranks_per_node = options.ranks;
  options.algorithm = runnable(options.collective, options.algorithm);
  if (!options.input) {
    options.input = [](std::size_t rank, std::size_t) { return static_cast<double>(rank + 1); };
  }
  const auto values = run<double>(options, DType::kFloat64, options.op, options.input);
  const auto origins = run<std::int64_t>(
      options, DType::kInt64, ReduceOp::kSum,
      [](std::size_t, std::size_t e) { return static_cast<std::int64_t>(e) * kPlace + 1; });

  Simulation simulation;
  simulation.collective = options.collective;
  simulation.algorithm = options.algorithm;
  simulation.ranks = options.ranks;
  simulation.ranks_per_node = options.ranks_per_node;
  simulation.elements = options.elements;
  simulation.sent = values.sent;
  for (std::size_t i = 0; i < values.messages.size(); ++i) {
    const RecordedMessage& message = values.messages[i];
    const Provenance origin(numbers<std::int64_t>(origins.messages[i].data).front());
    simulation.steps = std::max(simulation.steps, message.step);
    simulation.messages.push_back({message.step, message.from, message.to, origin.element,
                                   origin.contributions, numbers<double>(message.data)});
  }
  simulation.values.resize(simulation.steps + 1, RankVectors(options.ranks));
  simulation.complete.resize(simulation.steps + 1, std::vector<std::vector<bool>>(options.ranks));
  const bool reduces = options.collective == Collective::kAllReduce ||
                       options.collective == Collective::kReduceScatter;
  for (std::size_t rank = 0; rank < options.ranks; ++rank) {
    const auto vectors = by_step<double>(values.snapshots[rank], simulation.steps);
    const auto marks = by_step<std::int64_t>(origins.snapshots[rank], simulation.steps);
    for (std::size_t step = 0; step <= simulation.steps; ++step) {
      simulation.values[step][rank] = vectors[step];
      for (const std::int64_t mark : marks[step]) {
        simulation.complete[step][rank].push_back(Provenance(mark).contributions ==
                                                  (reduces ? options.ranks : 1));
      }
    }
  }
  return simulation;
}

}  // namespace nqd::collectives
