#include "collectives/tuning.h"

#include <doctest/doctest.h>

#include <atomic>
#include <memory>
#include <stdexcept>
#include <vector>

#include "collectives/cost.h"
#include "collectives/world.h"

namespace nqd::collectives {
namespace {

TuningRow row_of(Collective collective, int ranks, std::vector<TuningChoice> choices) {
  return {collective, ranks, true, "local", false, std::move(choices)};
}

std::shared_ptr<const Tuning> table(const std::vector<TuningRow>& rows) {
  return std::make_shared<const Tuning>(rows, "local", false);
}

// Runs one all_reduce of `count` floats; whether the sum was right and whether the counted traffic
// is that of `algorithm`.
bool ran_as(Communicator& world, std::size_t count, Algorithm algorithm) {
  std::vector<float> data(count, static_cast<float>(world.rank() + 1));
  const auto bytes = std::as_writable_bytes(std::span(data));
  world.reset_traffic();
  world.all_reduce(bytes, bytes, DType::kFloat32, ReduceOp::kSum);
  const auto n = static_cast<std::size_t>(world.size());
  const float sum = static_cast<float>(n * (n + 1)) / 2;
  for (const float value : data) {
    if (value != sum) return false;
  }
  const TrafficCount counted = world.traffic().at({world.group(), Collective::kAllReduce});
  const RankTraffic expected =
      rank_traffic(Collective::kAllReduce, algorithm, n, static_cast<std::size_t>(world.rank()),
                   count, sizeof(float));
  return counted.messages == expected.messages && counted.bytes_sent == expected.bytes_sent;
}

}  // namespace

TEST_CASE("a choice holds from its size to the next; the first also below, the last also above") {
  const Tuning tuning(
      {row_of(Collective::kAllReduce, 4,
              {{1024, Algorithm::kTree}, {8192, Algorithm::kDirect}, {1 << 20, Algorithm::kRing}})},
      "local", false);
  const auto at = [&](std::uint64_t bytes) {
    return tuning.algorithm(Collective::kAllReduce, 4, true, bytes);
  };
  CHECK(at(0) == Algorithm::kTree);
  CHECK(at(1024) == Algorithm::kTree);
  CHECK(at(8191) == Algorithm::kTree);
  CHECK(at(8192) == Algorithm::kDirect);
  CHECK(at((1 << 20) - 1) == Algorithm::kDirect);
  CHECK(at(1 << 20) == Algorithm::kRing);
  CHECK(at(std::uint64_t{1} << 40) == Algorithm::kRing);
}

TEST_CASE("only a row of the same collective, ranks, place, backend and buffers counts") {
  const std::vector<TuningRow> rows = {
      row_of(Collective::kAllReduce, 4, {{1, Algorithm::kTree}}),
      row_of(Collective::kAllReduce, 2, {}),
  };
  const Tuning tuning(rows, "local", false);
  CHECK(tuning.algorithm(Collective::kAllReduce, 4, true, 64) == Algorithm::kTree);
  CHECK_FALSE(tuning.algorithm(Collective::kAllReduce, 2, true, 64));
  CHECK_FALSE(tuning.algorithm(Collective::kAllReduce, 3, true, 64));
  CHECK_FALSE(tuning.algorithm(Collective::kAllReduce, 4, false, 64));
  CHECK_FALSE(tuning.algorithm(Collective::kAllGather, 4, true, 64));
  CHECK_FALSE(Tuning(rows, "mpi", false).algorithm(Collective::kAllReduce, 4, true, 64));
  CHECK_FALSE(Tuning(rows, "local", true).algorithm(Collective::kAllReduce, 4, true, 64));
}

TEST_CASE("auto runs what the table says, by size, and groups inherit it") {
  std::atomic<int> good = 0;
  run_threads(4, {}, [&](Communicator& world) {
    world.set_tuning(table(
        {row_of(Collective::kAllReduce, 4,
                {{4, Algorithm::kTree}, {4096, Algorithm::kRing}, {65536, Algorithm::kDirect}}),
         row_of(Collective::kAllReduce, 2, {{4, Algorithm::kRing}})}));
    good += ran_as(world, 10, Algorithm::kTree) ? 1 : 0;
    good += ran_as(world, 1023, Algorithm::kTree) ? 1 : 0;
    good += ran_as(world, 1024, Algorithm::kRing) ? 1 : 0;
    good += ran_as(world, 16384, Algorithm::kDirect) ? 1 : 0;
    const auto pair = world.split(world.rank() / 2, 0, "pair");
    good += ran_as(*pair, 100, Algorithm::kRing) ? 1 : 0;
    world.set_tuning(nullptr);
    good += ran_as(world, 10, Algorithm::kDirect) ? 1 : 0;
  });
  CHECK(good == 4 * 6);
}

TEST_CASE("an algorithm that cannot run here, and a call of unknown size, get the default") {
  run_threads(3, {}, [&](Communicator& world) {
    const Algorithm plain = world.chosen(Collective::kAllGather, Algorithm::kAuto, 64);
    world.set_tuning(table({row_of(Collective::kAllReduce, 3, {{4, Algorithm::kRing}}),
                            // One half of halving-doubling needs a power of two.
                            row_of(Collective::kAllGather, 3, {{4, Algorithm::kHalvingDoubling}}),
                            row_of(Collective::kReduce, 3, {{4, Algorithm::kPairwise}})}));
    const auto chosen = [&](Collective collective, std::optional<std::uint64_t> bytes) {
      return world.chosen(collective, Algorithm::kAuto, bytes);
    };
    const bool good =
        chosen(Collective::kAllReduce, 64) == Algorithm::kRing &&
        chosen(Collective::kAllReduce, {}) == Algorithm::kDirect &&
        chosen(Collective::kAllGather, 64) == plain &&
        chosen(Collective::kReduce, 64) == Algorithm::kDirect &&
        world.chosen(Collective::kAllReduce, Algorithm::kTree, 64) == Algorithm::kTree;
    if (!good) throw std::runtime_error("chose another algorithm");
  });
}

}  // namespace nqd::collectives
