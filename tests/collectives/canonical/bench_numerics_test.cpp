// `bench` with canonical numerics: what it runs, and what it refuses.
#include <doctest/doctest.h>

#include <set>
#include <string>

#include "collectives/bench/bench.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

BenchOptions small_sweep(Collective collective) {
  BenchOptions options;
  options.collective = collective;
  options.begin_bytes = options.end_bytes = 4096;
  options.iterations = 1;
  options.warmup = 0;
  options.numerics = Numerics::kCanonical;
  return options;
}

// The algorithms of the rows, or the code of the error.
std::set<std::string> run_on(int ranks, const BenchOptions& options) {
  std::set<std::string> found;
  run_threads(ranks, {}, [&](Communicator& world) {
    std::set<std::string> names;
    try {
      for (const BenchRow& row : run_bench(world, options).rows) {
        CHECK(row.wrong == 0);
        CHECK(row.numerics == "canonical");
        names.insert(row.algorithm);
      }
    } catch (const Error& error) {
      names.insert(error.code());
    }
    if (world.rank() == 0) found = names;
  });
  return found;
}

TEST_CASE("a canonical sweep runs canonical algorithms alone") {
  using Names = std::set<std::string>;
  BenchOptions options = small_sweep(Collective::kAllReduce);
  options.algorithms = {Algorithm::kAuto};
  CHECK(run_on(3, options) == Names{"direct"});
  options.algorithms = {Algorithm::kTree, Algorithm::kPairwise};
  CHECK(run_on(3, options) == Names{"pairwise", "tree"});
  options.algorithms = {Algorithm::kRing};
  CHECK(run_on(3, options) == Names{"NQD2102"});
  options.algorithms = {Algorithm::kTree};
  options.dtype = DType::kBFloat16;
  CHECK(run_on(3, options) == Names{"NQD2102"});
  options = small_sweep(Collective::kAllReduce);
  options.all_algorithms = true;
  CHECK(run_on(3, options) == Names{"direct", "pairwise", "tree"});
  CHECK(run_on(4, options) ==
        Names{"direct", "halving_doubling", "pairwise", "recursive_doubling", "tree"});
  options = small_sweep(Collective::kReduceScatter);
  options.all_algorithms = true;
  CHECK(run_on(4, options) == Names{"direct", "pairwise"});
}

}  // namespace
}  // namespace nqd::collectives
