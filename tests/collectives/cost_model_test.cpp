// The algorithms that are priced and not run, played message by message on a few ranks: they reach
// the collective's result, and send exactly what collectives/cost.h says.
#include <doctest/doctest.h>

#include <map>
#include <numeric>
#include <vector>

#include "collectives/cost.h"
#include "tests/collectives/cost_model_play.h"

namespace nqd::collectives {
namespace {

void check_traffic(Collective collective, Algorithm algorithm, std::size_t n, std::size_t count,
                   const Ledger& ledger, std::size_t g = 1) {
  std::uint64_t sent = 0;
  for (std::size_t rank = 0; rank < n; ++rank) {
    const RankTraffic one = rank_traffic(collective, algorithm, n, rank, count, 4, g);
    CAPTURE(rank);
    CHECK(one.messages == ledger.sent[rank].messages);
    CHECK(one.bytes_sent == ledger.sent[rank].bytes_sent);
    sent += one.bytes_sent;
  }
  CHECK(sent == std::accumulate(ledger.received.begin(), ledger.received.end(), std::uint64_t{0}));
}

template <typename Body>
void for_sizes(Body body) {
  for (std::size_t n = 1; n <= 17; ++n) {
    for (const std::size_t count : {0u, 1u, 2u, 5u, 16u, 33u, 150u}) {
      CAPTURE(n);
      CAPTURE(count);
      body(n, count);
    }
  }
}

TEST_CASE("all_reduce: every priced algorithm reaches the sum and sends what the function says") {
  for_sizes([](std::size_t n, std::size_t count) {
    const auto check = [&](Algorithm algorithm, std::size_t g, bool counts_rounds, auto play) {
      CAPTURE(name(algorithm));
      CAPTURE(g);
      Vectors vectors(n, count);
      play(vectors);
      for (std::size_t rank = 0; rank < n; ++rank) {
        for (std::size_t e = 0; e < count; ++e) {
          CHECK(vectors.at(rank, e) == (std::uint64_t{1} << n) - 1);
        }
      }
      check_traffic(Collective::kAllReduce, algorithm, n, count, vectors.ledger, g);
      if (!counts_rounds) return;
      CHECK(vectors.ledger.rounds == steps(Collective::kAllReduce, algorithm, n, g));
    };
    check(Algorithm::kRecursiveDoubling, 1, true,
          [&](Vectors& vectors) { recursive_doubling(vectors, n, count); });
    check(Algorithm::kHalvingDoubling, 1, true,
          [&](Vectors& vectors) { halving_doubling(vectors, n, count); });
    check(Algorithm::kDoubleBinaryTree, 1, false,
          [&](Vectors& vectors) { double_tree(vectors, n, count); });
    for (std::size_t g = 1; g <= n; ++g) {
      if (n % g != 0) continue;
      check(Algorithm::kHierarchical, g, true,
            [&](Vectors& vectors) { hierarchical_all_reduce(vectors, n, g, count); });
    }
  });
}

// Every element of chunk i is rank i's alone, everywhere.
void check_gathered(const Vectors& vectors, std::size_t n, std::size_t count) {
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (std::size_t i = 0; i < n; ++i) {
      for (const std::size_t e : chunk(count, n, i)) {
        CHECK(vectors.at(rank, e) == std::uint64_t{1} << i);
      }
    }
  }
}

TEST_CASE("all_gather: every priced algorithm gathers and sends what the function says") {
  for_sizes([](std::size_t n, std::size_t count) {
    for (std::size_t g = 1; g <= n; ++g) {
      if (n % g != 0) continue;
      Vectors vectors(n, count);
      exchange_pairs(
          vectors, place_rings(n, g),
          [&](std::size_t place, std::size_t node) { return chunk(count, n, node * g + place); },
          false);
      exchange_pairs(
          vectors, node_rings(n, g),
          [&](std::size_t, std::size_t place) { return place_set(count, n, g, place); }, false);
      check_gathered(vectors, n, count);
      check_traffic(Collective::kAllGather, Algorithm::kHierarchical, n, count, vectors.ledger, g);
    }
    if (std::has_single_bit(n)) {
      Vectors vectors(n, count);
      std::vector<std::size_t> all(n);
      std::iota(all.begin(), all.end(), std::size_t{0});
      double_up(vectors, all, count);
      check_gathered(vectors, n, count);
      check_traffic(Collective::kAllGather, Algorithm::kHalvingDoubling, n, count, vectors.ledger);
    }
    Vectors vectors(n, count);
    for (std::size_t held = 1; held < n; held *= 2) {
      Transfers transfers;
      for (std::size_t rank = 0; rank < n; ++rank) {
        Elements blocks;
        for (std::size_t i = 0; i < std::min(held, n - held); ++i) {
          for (const std::size_t e : chunk(count, n, (rank + i) % n)) blocks.push_back(e);
        }
        transfers.push_back({rank, (rank + n - held) % n, blocks, false});
      }
      vectors.round(transfers);
    }
    check_gathered(vectors, n, count);
    check_traffic(Collective::kAllGather, Algorithm::kBruck, n, count, vectors.ledger);
    CHECK(vectors.ledger.rounds == steps(Collective::kAllGather, Algorithm::kBruck, n));
  });
}

void check_scattered(const Vectors& vectors, std::size_t n, std::size_t count) {
  for (std::size_t rank = 0; rank < n; ++rank) {
    for (const std::size_t e : chunk(count, n, rank)) {
      CHECK(vectors.at(rank, e) == (std::uint64_t{1} << n) - 1);
    }
  }
}

TEST_CASE("reduce_scatter: every priced algorithm reduces and sends what the function says") {
  for_sizes([](std::size_t n, std::size_t count) {
    for (std::size_t g = 1; g <= n; ++g) {
      if (n % g != 0) continue;
      Vectors vectors(n, count);
      exchange_pairs(
          vectors, node_rings(n, g),
          [&](std::size_t, std::size_t place) { return place_set(count, n, g, place); }, true);
      exchange_pairs(
          vectors, place_rings(n, g),
          [&](std::size_t place, std::size_t node) { return chunk(count, n, node * g + place); },
          true);
      check_scattered(vectors, n, count);
      check_traffic(Collective::kReduceScatter, Algorithm::kHierarchical, n, count, vectors.ledger,
                    g);
    }
    if (std::has_single_bit(n)) {
      Vectors vectors(n, count);
      std::vector<std::size_t> all(n);
      std::iota(all.begin(), all.end(), std::size_t{0});
      halve(vectors, all, count);
      check_scattered(vectors, n, count);
      check_traffic(Collective::kReduceScatter, Algorithm::kHalvingDoubling, n, count,
                    vectors.ledger);
    }
    // Sends of one step must be of the inputs: a chunk that is added to here is never sent on.
    Vectors vectors(n, count);
    for (std::size_t s = 1; s < n; ++s) {
      Transfers transfers;
      for (std::size_t rank = 0; rank < n; ++rank) {
        transfers.push_back({rank, (rank + s) % n, chunk(count, n, (rank + s) % n), true});
      }
      vectors.round(transfers);
    }
    check_scattered(vectors, n, count);
    check_traffic(Collective::kReduceScatter, Algorithm::kPairwise, n, count, vectors.ledger);
  });
}

// Blocks that travel: the chunk of `target` that `source` gives.
struct Block {
  std::size_t source, target;
};
using Holdings = std::vector<std::vector<Block>>;

// Moves each rank's blocks to where `next` says, one message a pair of ranks.
void move_blocks(Holdings& holdings, Ledger& ledger, std::size_t count,
                 const std::function<std::size_t(std::size_t at, Block)>& next) {
  const std::size_t n = holdings.size();
  Holdings after(n);
  for (std::size_t at = 0; at < n; ++at) {
    std::map<std::size_t, std::size_t> elements;
    for (const Block& block : holdings[at]) {
      const std::size_t to = next(at, block);
      after[to].push_back(block);
      if (to != at) elements[to] += chunk_of(count, n, block.target).count;
    }
    for (const auto& [to, size] : elements) ledger.note(at, to, size);
  }
  holdings = std::move(after);
  ++ledger.rounds;
}

Holdings all_blocks(std::size_t n) {
  Holdings holdings(n);
  for (std::size_t source = 0; source < n; ++source) {
    for (std::size_t target = 0; target < n; ++target) holdings[source].push_back({source, target});
  }
  return holdings;
}

void check_delivered(const Holdings& holdings) {
  for (std::size_t at = 0; at < holdings.size(); ++at) {
    CHECK(holdings[at].size() == holdings.size());
    for (const Block& block : holdings[at]) CHECK(block.target == at);
  }
}

TEST_CASE("all_to_all: every priced algorithm delivers and sends what the function says") {
  for_sizes([](std::size_t n, std::size_t count) {
    Holdings direct = all_blocks(n);
    Ledger pairwise(n);
    move_blocks(direct, pairwise, count, [](std::size_t, Block block) { return block.target; });
    check_delivered(direct);
    check_traffic(Collective::kAllToAll, Algorithm::kPairwise, n, count, pairwise);

    Holdings held = all_blocks(n);
    Ledger bruck(n);
    for (std::size_t step = 1; step < n; step *= 2) {
      move_blocks(held, bruck, count, [&](std::size_t at, Block block) {
        const std::size_t distance = (block.target + n - block.source) % n;
        return (distance & step) != 0 ? (at + step) % n : at;
      });
    }
    check_delivered(held);
    check_traffic(Collective::kAllToAll, Algorithm::kBruck, n, count, bruck);
    CHECK(bruck.rounds == steps(Collective::kAllToAll, Algorithm::kBruck, n));

    for (std::size_t g = 1; g <= n; ++g) {
      if (n % g != 0) continue;
      Holdings two_level = all_blocks(n);
      Ledger ledger(n);
      move_blocks(two_level, ledger, count,
                  [&](std::size_t at, Block block) { return at / g * g + block.target % g; });
      move_blocks(two_level, ledger, count, [](std::size_t, Block block) { return block.target; });
      check_delivered(two_level);
      check_traffic(Collective::kAllToAll, Algorithm::kHierarchical, n, count, ledger, g);
    }
  });
}

}  // namespace
}  // namespace nqd::collectives
