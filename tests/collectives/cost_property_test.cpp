// What holds for every priced algorithm.
#include <doctest/doctest.h>

#include <array>
#include <bit>
#include <functional>
#include <initializer_list>
#include <string>
#include <tuple>

#include "base/error.h"
#include "collectives/cost.h"

namespace nqd::collectives {
namespace {

constexpr std::array kCollectives = {Collective::kAllReduce,     Collective::kAllGather,
                                     Collective::kReduceScatter, Collective::kBroadcast,
                                     Collective::kReduce,        Collective::kAllToAll,
                                     Collective::kBarrier,       Collective::kSendRecv};
constexpr std::array kAlgorithms = {Algorithm::kAuto,
                                    Algorithm::kRing,
                                    Algorithm::kTree,
                                    Algorithm::kLibrary,
                                    Algorithm::kDoubleBinaryTree,
                                    Algorithm::kRecursiveDoubling,
                                    Algorithm::kHalvingDoubling,
                                    Algorithm::kHierarchical,
                                    Algorithm::kNvls,
                                    Algorithm::kPairwise,
                                    Algorithm::kBruck};

// body(collective, algorithm, ranks, ranks_per_node) for each pair that has a price.
template <typename Body>
void for_priced(std::initializer_list<std::size_t> ranks, Body body) {
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : kAlgorithms) {
      for (const std::size_t n : ranks) {
        const std::size_t g = algorithm == Algorithm::kHierarchical && n % 4 == 0 ? 4 : 1;
        if (!has_cost(collective, algorithm, n, g)) continue;
        CAPTURE(name(collective));
        CAPTURE(name(algorithm));
        CAPTURE(n);
        body(collective, algorithm, n, g);
      }
    }
  }
}

double terms_sent(Collective collective, Algorithm algorithm, std::size_t n, std::size_t g = 1) {
  const LevelTerms terms = cost_terms(collective, algorithm, n, g);
  return terms.inside.sent + terms.across.sent;
}

TEST_CASE(
    "the line's bytes are those of the busiest rank, where no rank waits for another's bytes") {
  for_priced({2, 3, 4, 5, 8, 12, 16, 40}, [](Collective collective, Algorithm algorithm,
                                             std::size_t n, std::size_t g) {
    // Trees and folds put the bytes of several ranks behind one another; the all-to-all of two
    // levels sends each block twice, over two kinds of link.
    const bool folded = algorithm == Algorithm::kHalvingDoubling && !std::has_single_bit(n);
    const bool serial = algorithm == Algorithm::kTree || algorithm == Algorithm::kAuto ||
                        algorithm == Algorithm::kRecursiveDoubling || folded;
    if (serial || algorithm == Algorithm::kNvls) return;
    const std::size_t count = 240 * n;
    const double exact =
        static_cast<double>(max_traffic(collective, algorithm, n, count, 4, g).bytes_sent);
    CHECK(terms_sent(collective, algorithm, n, g) * static_cast<double>(4 * count) ==
          doctest::Approx(exact).epsilon(1e-12));
  });
}

TEST_CASE("more bytes never take less time, and bytes of no rank shrink") {
  const Link link{2e-6, 1e-11, 1e-12};
  for_priced({1, 2, 3, 6, 8, 16}, [&](Collective collective, Algorithm algorithm, std::size_t n,
                                      std::size_t g) {
    double before_s = -1;
    std::uint64_t before = 0;
    for (const std::size_t count : {0u, 1u, 3u, 7u, 8u, 100u, 101u, 4096u}) {
      const double time = time_s(collective, algorithm, n, static_cast<double>(count) * 4, link, g);
      CHECK(time >= before_s);
      before_s = time;
      const std::uint64_t bytes = max_traffic(collective, algorithm, n, count, 4, g).bytes_sent;
      CHECK(bytes >= before);
      before = bytes;
    }
  });
}

TEST_CASE("more ranks never take less time, the fold of other than powers of two apart") {
  const Link link{2e-6, 1e-11, 1e-12};
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : kAlgorithms) {
      double before = 0;
      for (std::size_t n = 1; n <= 256; n *= 2) {
        if (!has_cost(collective, algorithm, n)) continue;
        const double time = time_s(collective, algorithm, n, 1e6, link);
        CAPTURE(name(collective));
        CAPTURE(name(algorithm));
        CAPTURE(n);
        // An NVLS rank multicasts less when more share the work.
        if (algorithm == Algorithm::kNvls && n > 2) {
          CHECK(time <= before);
        } else {
          CHECK(time >= before);
        }
        before = time;
      }
    }
  }
}

TEST_CASE("ranks are alike where the vector divides evenly and the algorithm has no root") {
  for_priced({4, 8, 16},
             [](Collective collective, Algorithm algorithm, std::size_t n, std::size_t g) {
               const bool rooted =
                   algorithm == Algorithm::kTree || algorithm == Algorithm::kDoubleBinaryTree ||
                   collective == Collective::kBroadcast || collective == Collective::kReduce;
               if (rooted) return;
               const RankTraffic first = rank_traffic(collective, algorithm, n, 0, 8 * n, 2, g);
               for (std::size_t rank = 1; rank < n; ++rank) {
                 const RankTraffic one = rank_traffic(collective, algorithm, n, rank, 8 * n, 2, g);
                 CHECK(one.bytes_sent == first.bytes_sent);
                 CHECK(one.messages == first.messages);
               }
             });
}

TEST_CASE("ring and halving-doubling send the same bytes on a power of two") {
  for (std::size_t n = 1; n <= 64; n *= 2) {
    for (const Collective collective :
         {Collective::kAllReduce, Collective::kAllGather, Collective::kReduceScatter}) {
      CHECK(terms_sent(collective, Algorithm::kRing, n) ==
            terms_sent(collective, Algorithm::kHalvingDoubling, n));
      CHECK(max_traffic(collective, Algorithm::kRing, n, 64 * n, 4).bytes_sent ==
            max_traffic(collective, Algorithm::kHalvingDoubling, n, 64 * n, 4).bytes_sent);
    }
  }
}

TEST_CASE("two levels with one rank a node, or one node, have one level's traffic") {
  const auto sent = [](Collective collective, Algorithm algorithm, std::size_t n, std::size_t rank,
                       std::size_t g) {
    return rank_traffic(collective, algorithm, n, rank, 101, 4, g).bytes_sent;
  };
  for (const std::size_t n : {2u, 6u, 16u}) {
    for (std::size_t rank = 0; rank < n; ++rank) {
      const auto ring = [&](Collective c) { return sent(c, Algorithm::kRing, n, rank, 1); };
      const auto two = [&](Collective c, std::size_t g) {
        return sent(c, Algorithm::kHierarchical, n, rank, g);
      };
      CHECK(two(Collective::kReduceScatter, 1) == ring(Collective::kReduceScatter));
      CHECK(two(Collective::kReduceScatter, n) == ring(Collective::kReduceScatter));
      const std::size_t own_to_all = (n - 1) * 4 * chunk_of(101, n, rank).count;
      CHECK(two(Collective::kAllGather, 1) == own_to_all);
      CHECK(two(Collective::kAllGather, n) == own_to_all);
      CHECK(two(Collective::kAllReduce, 1) ==
            ring(Collective::kReduceScatter) + ring(Collective::kAllGather));
      // Inside a node a rank gives its own chunk to every other.
      CHECK(two(Collective::kAllReduce, n) == ring(Collective::kReduceScatter) + own_to_all);
    }
  }
}

TEST_CASE("lines by hand: 8 ranks, and 6, which fold onto 4") {
  const auto inside = [](Collective collective, Algorithm algorithm, std::size_t n) {
    return cost_terms(collective, algorithm, n).inside;
  };
  const auto is = [](const CostTerms& terms, double steps, double sent, double reduced) {
    CHECK(terms.steps == steps);
    CHECK(terms.sent == doctest::Approx(sent).epsilon(1e-15));
    CHECK(terms.reduced == doctest::Approx(reduced).epsilon(1e-15));
  };
  is(inside(Collective::kAllReduce, Algorithm::kRing, 8), 14, 1.75, 0.875);
  is(inside(Collective::kAllReduce, Algorithm::kTree, 8), 6, 6, 3);
  is(inside(Collective::kAllReduce, Algorithm::kDoubleBinaryTree, 8), 6, 2, 1);
  is(inside(Collective::kAllReduce, Algorithm::kRecursiveDoubling, 8), 3, 3, 3);
  is(inside(Collective::kAllReduce, Algorithm::kHalvingDoubling, 8), 6, 1.75, 0.875);
  is(inside(Collective::kAllReduce, Algorithm::kNvls, 8), 2, 1.125, 0);
  is(inside(Collective::kAllReduce, Algorithm::kRecursiveDoubling, 6), 4, 4, 3);
  is(inside(Collective::kAllReduce, Algorithm::kHalvingDoubling, 6), 6, 3.5, 1.75);
  is(inside(Collective::kAllToAll, Algorithm::kBruck, 8), 3, 1.5, 0);
  is(inside(Collective::kAllToAll, Algorithm::kBruck, 6), 3, 7.0 / 6, 0);
  is(inside(Collective::kAllToAll, Algorithm::kPairwise, 6), 5, 5.0 / 6, 0);
  is(inside(Collective::kReduce, Algorithm::kTree, 8), 3, 3, 3);
  is(inside(Collective::kReduce, Algorithm::kRing, 8), 7, 1, 1);
  const LevelTerms two = cost_terms(Collective::kAllReduce, Algorithm::kHierarchical, 16, 8);
  is(two.inside, 14, 1.75, 0.875);
  is(two.across, 2, 1.0 / 8, 0.5 / 8);
}

TEST_CASE("crossovers: latency decides below, bandwidth above, and they are ordered") {
  const auto line = [](Algorithm algorithm) {
    return cost_terms(Collective::kAllReduce, algorithm, 64).inside;
  };
  const auto crossing = [&](Algorithm small, Algorithm large, const Link& link) {
    const double latency_s = time_s(line(large), 0, link) - time_s(line(small), 0, link);
    return latency_s / ((line(small).sent - line(large).sent) * link.beta_s_per_byte);
  };
  const Link link{5e-6, 2e-11};
  const double first = crossing(Algorithm::kRecursiveDoubling, Algorithm::kHalvingDoubling, link);
  const double second = crossing(Algorithm::kDoubleBinaryTree, Algorithm::kRing, link);
  CHECK(first > 0);
  CHECK(second > first);
  for (const auto& [small, large, bytes] :
       {std::tuple{Algorithm::kRecursiveDoubling, Algorithm::kHalvingDoubling, first},
        std::tuple{Algorithm::kDoubleBinaryTree, Algorithm::kRing, second}}) {
    const auto time = [&](Algorithm algorithm, double size) {
      return time_s(Collective::kAllReduce, algorithm, 64, size, link);
    };
    CHECK(time(small, bytes) == doctest::Approx(time(large, bytes)).epsilon(1e-12));
    CHECK(time(small, bytes * 0.9) < time(large, bytes * 0.9));
    CHECK(time(small, bytes * 1.1) > time(large, bytes * 1.1));
  }
  // Dearer messages move a crossing up in proportion.
  CHECK(crossing(Algorithm::kTree, Algorithm::kRing, {1e-5, 2e-11}) ==
        doctest::Approx(2 * crossing(Algorithm::kTree, Algorithm::kRing, link)).epsilon(1e-12));
}

TEST_CASE("reduction and protocol have their price") {
  const Link link{0, 1e-10, 1e-11};
  CHECK(time_s(Collective::kAllReduce, Algorithm::kRing, 4, 1e9, link) ==
        doctest::Approx(1.5 * 0.1 + 0.75 * 0.01).epsilon(1e-12));
  CHECK(with_protocol(link, Protocol::kLL).beta_s_per_byte == 2e-10);
  CHECK(with_protocol(link, Protocol::kLL128).beta_s_per_byte ==
        doctest::Approx(128.0 / 120 * 1e-10).epsilon(1e-15));
  CHECK(with_protocol(link, Protocol::kSimple).beta_s_per_byte == 1e-10);
}

void check_refused(const std::function<void()>& call, const std::string& word) {
  try {
    call();
    FAIL("not refused");
  } catch (const Error& error) {
    CHECK(error.code() == "NQD2102");
    CHECK(error.exit_code() == ExitCode::kUsage);
    CHECK(std::string(error.what()).find(word) != std::string::npos);
  }
}

TEST_CASE("what is only priced is not run") {
  for (const Collective collective : kCollectives) {
    for (const Algorithm algorithm : kAlgorithms) {
      if (is_executable(collective, algorithm)) {
        CHECK(has_cost(collective, algorithm, 8));
        CHECK(is_executable(collective, resolve(collective, algorithm)));
      } else {
        check_refused([&] { resolve(collective, algorithm); }, "that nqd runs");
      }
    }
  }
  CHECK(is_executable(Collective::kAllReduce, Algorithm::kTree));
  CHECK_FALSE(is_executable(Collective::kAllReduce, Algorithm::kNvls));
  CHECK_FALSE(is_executable(Collective::kReduce, Algorithm::kRing));
}

TEST_CASE("ranks that an algorithm does not suit are named") {
  check_refused([] { steps(Collective::kAllGather, Algorithm::kHalvingDoubling, 6); },
                "power of two of ranks, not 6");
  check_refused([] { steps(Collective::kAllReduce, Algorithm::kHierarchical, 6, 4); },
                "6 ranks are no multiple of 4");
  check_refused([] { steps(Collective::kAllReduce, Algorithm::kHierarchical, 6, 0); },
                "6 ranks are no multiple of 0");
}

}  // namespace
}  // namespace nqd::collectives
