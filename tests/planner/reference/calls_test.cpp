#include "planner/reference/calls.h"

#include <doctest/doctest.h>

#include "planner/layout/engine_algorithm.h"
#include "tests/planner/configs.h"

namespace nqd::planner {
namespace {

using collectives::Algorithm;
using collectives::Collective;

Config config_of(int ranks, bool shares_memory) {
  Config config = cpu_config(ranks);
  config.cluster.ranks_share_memory = shares_memory;
  config.numerics.mode = collectives::Numerics::kCanonical;
  return config;
}

TEST_CASE(
    "the algorithm of a call: direct, in canonical numerics one that keeps the tree, a ring") {
  using collectives::Numerics;
  const auto of = [](Numerics numerics, Collective collective, std::int64_t ranks,
                     std::uint64_t bytes, bool reaches) {
    return engine_algorithm(numerics, collective, ranks, bytes, DType::kFloat32, reaches);
  };
  CHECK(of(Numerics::kFast, Collective::kAllReduce, 4, 1 << 20, true) == Algorithm::kDirect);
  CHECK(of(Numerics::kCanonical, Collective::kAllGather, 4, 1 << 20, true) == Algorithm::kDirect);
  CHECK(of(Numerics::kFast, Collective::kAllReduce, 4, 1 << 20, false) == Algorithm::kRing);
  CHECK(of(Numerics::kFast, Collective::kReduceScatter, 4, 1 << 20, false) == Algorithm::kRing);
  CHECK(of(Numerics::kCanonical, Collective::kAllReduce, 4, 1 << 20, false) ==
        Algorithm::kHalvingDoubling);
  CHECK(of(Numerics::kCanonical, Collective::kAllReduce, 4, 64, false) ==
        Algorithm::kRecursiveDoubling);
  CHECK(of(Numerics::kCanonical, Collective::kAllReduce, 3, 1 << 20, false) ==
        Algorithm::kPairwise);
  CHECK(of(Numerics::kCanonical, Collective::kReduceScatter, 4, 1 << 20, false) ==
        Algorithm::kPairwise);
  CHECK(of(Numerics::kCanonical, Collective::kAllGather, 4, 1 << 20, false) == Algorithm::kRing);
  CHECK(of(Numerics::kCanonical, Collective::kAllToAll, 3, 1 << 20, false) == Algorithm::kPairwise);
}

TEST_CASE("rows of one group and collective are one, with the algorithm of the longest vector") {
  const Config config = config_of(4, false);
  CallTally tally(config);
  const RankGroup dp = rank_group(config, dp_group(config.parallel), 1);
  tally.add(dp, Collective::kAllReduce, 16, DType::kFloat32, 3);
  tally.add(dp, Collective::kAllReduce, 100'000, DType::kFloat32);
  tally.add(dp, Collective::kAllReduce, 0, DType::kFloat32);
  REQUIRE(tally.rows().size() == 1);
  const CallRow& row = tally.rows().front();
  CHECK(row.calls == 4);
  CHECK(row.algorithm == Algorithm::kHalvingDoubling);
  // Recursive doubling sends the vector log2 4 times, halving-doubling 3/2 times.
  CHECK(row.bytes_sent == 3 * 2 * 16 * 4 + 100'000 * 4 * 3 / 2);
  REQUIRE(tally.scratch().size() == 1);
  CHECK(tally.scratch().front().bytes == 400'000);
  tally.add({{"tp", 1, 1}, 0, false}, Collective::kAllReduce, 16, DType::kFloat32);
  CHECK(tally.rows().size() == 1);
}

}  // namespace
}  // namespace nqd::planner
