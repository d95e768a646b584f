// nqd's algorithms on virtual ranks: what is shown is the golden trace, and what the cost functions
// say.
#include "collectives/simulation/simulation.h"

#include <doctest/doctest.h>

#include <algorithm>
#include <array>
#include <string>

#include "base/error.h"

namespace nqd::collectives {
namespace {

struct Case {
  Collective collective;
  Algorithm algorithm;
};
constexpr std::array kCases = {Case{Collective::kAllReduce, Algorithm::kRing},
                               Case{Collective::kAllReduce, Algorithm::kTree},
                               Case{Collective::kAllGather, Algorithm::kRing},
                               Case{Collective::kReduceScatter, Algorithm::kRing},
                               Case{Collective::kBroadcast, Algorithm::kTree}};

SimulationOptions options_of(Collective collective, Algorithm algorithm, std::size_t ranks,
                             std::size_t elements) {
  SimulationOptions options;
  options.collective = collective;
  options.algorithm = algorithm;
  options.ranks = ranks;
  options.elements = elements;
  return options;
}

TEST_CASE("golden trace: ring all_reduce, N = 4, eight elements, rank r filled with r + 1") {
  const Simulation ring = simulate(options_of(Collective::kAllReduce, Algorithm::kAuto, 4, 8));
  CHECK(ring.algorithm == Algorithm::kRing);
  CHECK(ring.steps == 6);
  REQUIRE(ring.messages.size() == 24);
  for (const SimulatedMessage& message : ring.messages) {
    CHECK(message.to == (message.from + 1) % 4);
    CHECK(message.values.size() == 2);
    // Reduce-scatter step s sends chunk r − s + 1 with s inputs in it; then all inputs go round.
    const std::size_t chunk = (message.from + 5 - message.step + (message.step > 3 ? 4 : 0)) % 4;
    CHECK(message.begin == 2 * chunk);
    CHECK(message.contributions == std::min<std::size_t>(message.step, 4));
  }
  for (std::size_t rank = 0; rank < 4; ++rank) {
    for (std::size_t e = 0; e < 8; ++e) {
      // After reduce-scatter rank i owns chunk i + 1, and no other.
      CHECK(ring.complete[3][rank][e] == (e / 2 == (rank + 1) % 4));
      CHECK(ring.values[6][rank][e] == 10);
    }
    CHECK(ring.values[3][rank][2 * ((rank + 1) % 4)] == 10);
    CHECK(ring.values[0][rank][0] == static_cast<double>(rank + 1));
    CHECK(ring.sent[rank].bytes_sent == 12 * sizeof(double));
  }
}

TEST_CASE("golden: four ranks hold 0.8, 1.2, 1.0 and 1.4; their sum is 4.4, their mean 1.1") {
  for (const Algorithm algorithm : {Algorithm::kRing, Algorithm::kTree}) {
    SimulationOptions options = options_of(Collective::kAllReduce, algorithm, 4, 1);
    options.input = [](std::size_t rank, std::size_t) {
      return std::array{0.8, 1.2, 1.0, 1.4}.at(rank);
    };
    CHECK(simulate(options).values.back()[3][0] == doctest::Approx(4.4).epsilon(1e-15));
    options.op = ReduceOp::kAvg;
    CHECK(simulate(options).values.back()[2][0] == doctest::Approx(1.1).epsilon(1e-15));
  }
}

TEST_CASE("any ranks, any length: the result, the traffic and the steps are right") {
  for (const Case& one : kCases) {
    for (const std::size_t n : {1u, 2u, 3u, 5u, 8u}) {
      for (const std::size_t count : {0u, 1u, 3u, 8u, 17u}) {
        CAPTURE(name(one.collective));
        CAPTURE(name(one.algorithm));
        CAPTURE(n);
        CAPTURE(count);
        const Simulation run = simulate(options_of(one.collective, one.algorithm, n, count));
        const auto sum = static_cast<double>(n * (n + 1) / 2);
        for (std::size_t rank = 0; rank < n; ++rank) {
          const RankTraffic predicted =
              rank_traffic(one.collective, one.algorithm, n, rank, count, sizeof(double));
          CHECK(run.sent[rank].bytes_sent == predicted.bytes_sent);
          CHECK(run.sent[rank].messages == predicted.messages);
          for (std::size_t owner = 0; owner < n; ++owner) {
            const Chunk chunk = chunk_of(count, n, owner);
            const bool scatter = one.collective == Collective::kReduceScatter;
            if (scatter && owner != rank) continue;
            for (std::size_t e = chunk.begin; e < chunk.begin + chunk.count; ++e) {
              double expected = sum;
              if (one.collective == Collective::kAllGather)
                expected = static_cast<double>(owner + 1);
              if (one.collective == Collective::kBroadcast) expected = 1;
              CHECK(run.values.back()[rank][e] == expected);
              CHECK(run.complete.back()[rank][e]);
            }
          }
        }
        if (count >= n) CHECK(run.steps == steps(one.collective, one.algorithm, n));
      }
    }
  }
}

TEST_CASE("messages are the same in every run, whatever the threads do") {
  const auto trace = [] {
    std::string text;
    for (const SimulatedMessage& message :
         simulate(options_of(Collective::kAllReduce, Algorithm::kTree, 7, 3)).messages) {
      text += std::to_string(message.step) + ":" + std::to_string(message.from) + ">" +
              std::to_string(message.to) + " ";
    }
    return text;
  };
  const std::string first = trace();
  // Children nearest first; then the root sends to the farthest first, one a step.
  CHECK(first.find("1:1>0 ") != std::string::npos);
  CHECK(first.find("4:0>4 5:0>2 5:4>6 6:0>1 6:2>3 6:4>5 ") != std::string::npos);
  for (int round = 0; round < 5; ++round) CHECK(trace() == first);
}

TEST_CASE("what nqd does not run is refused, and what it runs is named") {
  for (const Case& one :
       {Case{Collective::kAllReduce, Algorithm::kNvls},
        Case{Collective::kAllToAll, Algorithm::kAuto}, Case{Collective::kBarrier, Algorithm::kAuto},
        Case{Collective::kBroadcast, Algorithm::kRing}}) {
    try {
      simulate(options_of(one.collective, one.algorithm, 4, 8));
      FAIL("not refused");
    } catch (const Error& error) {
      CHECK(error.code() == "NQD2105");
      CHECK(error.exit_code() == ExitCode::kUsage);
      CHECK(error.hint().find(
                "all_reduce ring, all_reduce tree, all_reduce recursive_doubling, "
                "all_reduce halving_doubling, all_reduce hierarchical, all_gather ring, "
                "reduce_scatter ring, broadcast tree") != std::string::npos);
    }
  }
}

}  // namespace
}  // namespace nqd::collectives
