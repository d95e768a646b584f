#include "collectives/bench/canonical_choice.h"

#include <optional>
#include <string>

#include "base/error.h"

namespace nqd::collectives {
namespace {

// A tree to another root adds in an order that begins at that root; only exact sums do not care.
bool is_turned(const Communicator& world, const BenchOptions& options, Algorithm algorithm) {
  const auto ranks = static_cast<std::size_t>(world.size());
  const bool rounds = !is_canonical(options.collective, Algorithm::kRing, ranks, options.dtype);
  return algorithm == Algorithm::kTree && options.root != 0 && rounds;
}

std::optional<Algorithm> automatic(const Communicator& world, const BenchOptions& options,
                                   std::uint64_t bytes) {
  const bool reaches_memory =
      world.chosen(options.collective, Algorithm::kAuto) == Algorithm::kDirect;
  const auto choice =
      canonical_algorithm(options.collective, static_cast<std::size_t>(world.size()), bytes,
                          options.dtype, reaches_memory);
  return choice && is_turned(world, options, *choice) ? std::nullopt : choice;
}

[[noreturn]] void throw_not_canonical(const Communicator& world, const BenchOptions& options,
                                      Algorithm algorithm) {
  throw Error(ExitCode::kUsage, "NQD2102",
              std::string(name(algorithm)) + " " + std::string(name(options.collective)) + " of " +
                  std::string(name(options.dtype)) + " on " + std::to_string(world.size()) +
                  " ranks is not canonical: it adds in another order than the one fixed tree, or "
                  "rounds in between",
              "use --algorithm auto, or --numerics fast");
}

}  // namespace

std::vector<Algorithm> canonical_algorithms(const Communicator& world, const BenchOptions& options,
                                            const std::vector<Algorithm>& asked) {
  std::vector<Algorithm> algorithms;
  for (const Algorithm algorithm : asked) {
    const bool is_auto = algorithm == Algorithm::kAuto;
    const bool fits = is_auto
                          ? automatic(world, options, options.begin_bytes).has_value()
                          : !is_turned(world, options, algorithm) &&
                                is_canonical(options.collective, algorithm,
                                             static_cast<std::size_t>(world.size()), options.dtype);
    if (fits) {
      algorithms.push_back(is_auto ? algorithm : world.chosen(options.collective, algorithm));
    } else if (!options.all_algorithms) {
      throw_not_canonical(world, options, algorithm);
    }
  }
  return algorithms;
}

Algorithm at_size(const Communicator& world, const BenchOptions& options, Algorithm algorithm,
                  std::uint64_t bytes) {
  if (algorithm != Algorithm::kAuto || options.numerics == Numerics::kFast) return algorithm;
  const Algorithm choice = automatic(world, options, bytes).value_or(algorithm);
  return world.chosen(options.collective, choice);
}

}  // namespace nqd::collectives
