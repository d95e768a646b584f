// `nqd simulate collective`: nqd's own algorithms on virtual ranks, message by message.
#include <CLI/CLI.hpp>
#include <iostream>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "base/error.h"
#include "base/file.h"
#include "cli/calc/calc.h"
#include "cli/command.h"
#include "cli/simulate/collective_output.h"
#include "cli/simulate/simulate.h"

namespace nqd::cli {
namespace {

using collectives::Algorithm;
using collectives::Collective;

struct Options {
  std::string collective;
  std::string algorithm = "auto";
  std::size_t ranks = 4;
  std::size_t ranks_per_node = 0;
  std::size_t elements = 8;
  std::string latency = "5us";
  std::string bandwidth = "50 GB/s";
  std::string trace;
  bool json = false;
};

template <typename Value>
Value parsed(const std::optional<Value>& value, const std::string& what, const std::string& text) {
  if (value) return *value;
  throw Error(ExitCode::kUsage, "NQD2105", "there is no " + what + " `" + text + "`",
              "`nqd simulate collective --help` names them");
}

int run(const Options& options) {
  collectives::SimulationOptions simulated;
  simulated.collective =
      parsed(collectives::parse_collective(options.collective), "collective", options.collective);
  simulated.algorithm =
      parsed(collectives::parse_algorithm(options.algorithm), "algorithm", options.algorithm);
  simulated.ranks = options.ranks;
  simulated.ranks_per_node = options.ranks_per_node;
  simulated.elements = options.elements;
  const collectives::Link link{
      read_quantity("--latency", options.latency, Unit::kSeconds, 0, false),
      1 / read_quantity("--bandwidth", options.bandwidth, Unit::kBytesPerSecond, 0, true)};
  std::optional<AtomicFile> trace;
  if (!options.trace.empty()) trace.emplace(options.trace);
  const collectives::Simulation simulation = simulate(simulated);
  if (trace) {
    trace->write(simulation_trace(simulation, link));
    trace->commit();
  }
  std::cout << (options.json ? simulation_json(simulation) : simulation_text(simulation));
  return static_cast<int>(ExitCode::kOk);
}

}  // namespace

void add_simulate_collective(CLI::App& simulate, Context& context) {
  auto options = std::make_shared<Options>();
  CLI::App* command = simulate.add_subcommand(
      "collective", "Run a collective message by message; rank r starts with r + 1 everywhere");
  command
      ->add_option("collective", options->collective,
                   "all_reduce, all_gather, reduce_scatter or broadcast")
      ->required()
      ->type_name("COLLECTIVE");
  command
      ->add_option("--algorithm", options->algorithm,
                   "all_reduce: ring (default), tree, recursive_doubling, halving_doubling or "
                   "hierarchical")
      ->capture_default_str();
  command->add_option("--ranks", options->ranks, "virtual ranks")
      ->check(CLI::Range(std::size_t{1}, collectives::kMostSimulatedRanks))
      ->capture_default_str();
  command
      ->add_option("--ranks-per-node", options->ranks_per_node,
                   "ranks fill nodes of so many, for hierarchical; 0: one node")
      ->check(CLI::Range(std::size_t{0}, collectives::kMostSimulatedRanks))
      ->capture_default_str();
  command->add_option("--elements", options->elements, "of the full vector, cut in a chunk a rank")
      ->check(CLI::Range(std::size_t{0}, collectives::kMostSimulatedElements))
      ->capture_default_str();
  command->add_flag("--json", options->json,
                    "print JSON (schemas/simulate-collective.schema.json)");
  command->add_option("--trace", options->trace, "also write a trace that Perfetto opens")
      ->type_name("FILE");
  command->add_option("--latency", options->latency, "α of a message in the trace")
      ->capture_default_str();
  command->add_option("--bandwidth", options->bandwidth, "1/β of a message in the trace")
      ->capture_default_str();
  command->callback([options, &context] { context.exit_code = run(*options); });
}

}  // namespace nqd::cli
