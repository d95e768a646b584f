// The algorithms that are priced and not run, played message by message on a few ranks: they reach
// the collective's result, and send exactly what collectives/cost.h says.
#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <functional>
#include <map>
#include <numeric>
#include <vector>

#include "collectives/cost.h"

namespace nqd::collectives {
namespace {

using Elements = std::vector<std::size_t>;

Elements range(std::size_t count, std::size_t n, std::size_t first, std::size_t length) {
  const std::size_t begin = chunk_of(count, n, first).begin;
  Elements elements(chunk_of(count, n, first + length).begin - begin);
  std::iota(elements.begin(), elements.end(), begin);
  return elements;
}
Elements chunk(std::size_t count, std::size_t n, std::size_t i) { return range(count, n, i, 1); }

// What each rank sent and received.
struct Ledger {
  explicit Ledger(std::size_t ranks) : sent(ranks), received(ranks) {}
  void note(std::size_t from, std::size_t to, std::size_t elements) {
    if (elements == 0) return;
    ++sent[from].messages;
    sent[from].bytes_sent += elements * 4;
    received[to] += elements * 4;
  }
  std::vector<RankTraffic> sent;
  std::vector<std::uint64_t> received;
  std::uint64_t rounds = 0;
};

// Ranks that hold vectors; each element is the set of ranks whose input is in it.
class Vectors {
 public:
  struct Transfer {
    std::size_t from, to;
    Elements elements;
    bool adds;  // else it overwrites
  };

  Vectors(std::size_t ranks, std::size_t count)
      : ledger(ranks), values_(ranks, std::vector<std::uint64_t>(count)) {
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      std::fill(values_[rank].begin(), values_[rank].end(), std::uint64_t{1} << rank);
    }
  }
  // All at once: what leaves is what was there before.
  void round(const std::vector<Transfer>& transfers) {
    const auto before = values_;
    for (const Transfer& transfer : transfers) {
      ledger.note(transfer.from, transfer.to, transfer.elements.size());
      for (const std::size_t e : transfer.elements) {
        std::uint64_t& target = values_[transfer.to][e];
        const std::uint64_t source = before[transfer.from][e];
        // A contribution that arrives twice would be added twice.
        if (transfer.adds) CHECK((target & source) == 0);
        target = transfer.adds ? target | source : source;
      }
    }
    ++ledger.rounds;
  }
  std::uint64_t at(std::size_t rank, std::size_t element) const { return values_[rank][element]; }

  Ledger ledger;

 private:
  std::vector<std::vector<std::uint64_t>> values_;
};

using Transfers = std::vector<Vectors::Transfer>;

Elements everything(std::size_t count) { return range(count, 1, 0, 1); }

// Folds onto the ranks that go on, or returns the result; the ranks that go on, in order.
std::vector<std::size_t> fold(Vectors& vectors, std::size_t n, std::size_t count, bool back) {
  const std::size_t extra = n - std::bit_floor(n);
  std::vector<std::size_t> active;
  Transfers transfers;
  for (std::size_t i = 0; i < extra; ++i) {
    active.push_back(2 * i + 1);
    if (back) transfers.push_back({2 * i + 1, 2 * i, everything(count), false});
    if (!back) transfers.push_back({2 * i, 2 * i + 1, everything(count), true});
  }
  for (std::size_t rank = 2 * extra; rank < n; ++rank) active.push_back(rank);
  if (extra > 0) vectors.round(transfers);
  return active;
}

void recursive_doubling(Vectors& vectors, std::size_t n, std::size_t count) {
  const auto active = fold(vectors, n, count, false);
  for (std::size_t distance = 1; distance < active.size(); distance *= 2) {
    Transfers transfers;
    for (std::size_t v = 0; v < active.size(); ++v) {
      transfers.push_back({active[v], active[v ^ distance], everything(count), true});
    }
    vectors.round(transfers);
  }
  fold(vectors, n, count, true);
}

void halve(Vectors& vectors, const std::vector<std::size_t>& active, std::size_t count) {
  const std::size_t m = active.size();
  for (std::size_t half = m / 2; half > 0; half /= 2) {
    Transfers transfers;
    for (std::size_t v = 0; v < m; ++v) {
      const std::size_t partner = v ^ half;
      transfers.push_back(
          {active[v], active[partner], range(count, m, partner / half * half, half), true});
    }
    vectors.round(transfers);
  }
}

void double_up(Vectors& vectors, const std::vector<std::size_t>& active, std::size_t count) {
  const std::size_t m = active.size();
  for (std::size_t block = 1; block < m; block *= 2) {
    Transfers transfers;
    for (std::size_t v = 0; v < m; ++v) {
      transfers.push_back(
          {active[v], active[v ^ block], range(count, m, v / block * block, block), false});
    }
    vectors.round(transfers);
  }
}

void halving_doubling(Vectors& vectors, std::size_t n, std::size_t count) {
  const auto active = fold(vectors, n, count, false);
  halve(vectors, active, count);
  double_up(vectors, active, count);
  fold(vectors, n, count, true);
}

// The in-order binary tree on places 1 … n−1 below place 0, as (parent, child) by depth.
struct Edge {
  std::size_t parent, child, depth;
};
void in_order(std::size_t parent, std::size_t first, std::size_t n, std::size_t span,
              std::size_t depth, std::vector<Edge>& edges) {
  // The places first … first + 2·span − 2 hang below the middle one that is there.
  if (span == 0 || first >= n) return;
  const std::size_t middle = first + span - 1;
  if (middle >= n) return in_order(parent, first, n, span / 2, depth, edges);
  edges.push_back({parent, middle, depth});
  in_order(middle, first, n, span / 2, depth + 1, edges);
  in_order(middle, middle + 1, n, span / 2, depth + 1, edges);
}

void double_tree(Vectors& vectors, std::size_t n, std::size_t count) {
  std::vector<Edge> edges;
  in_order(0, 1, n, std::bit_ceil(n) / 2, 1, edges);
  std::size_t deepest = 0;
  for (const Edge& edge : edges) deepest = std::max(deepest, edge.depth);
  CHECK(2 * deepest == steps(Collective::kAllReduce, Algorithm::kDoubleBinaryTree, n));
  for (const bool second : {false, true}) {
    const auto rank = [&](std::size_t place) {
      if (!second) return place;
      return n % 2 == 0 ? n - 1 - place : (place + 1) % n;
    };
    const Elements half = chunk(count, 2, second ? 1 : 0);
    for (std::size_t depth = deepest; depth > 0; --depth) {
      Transfers up;
      for (const Edge& edge : edges) {
        if (edge.depth == depth) up.push_back({rank(edge.child), rank(edge.parent), half, true});
      }
      vectors.round(up);
    }
    for (std::size_t depth = 1; depth <= deepest; ++depth) {
      Transfers down;
      for (const Edge& edge : edges) {
        if (edge.depth == depth) down.push_back({rank(edge.parent), rank(edge.child), half, false});
      }
      vectors.round(down);
    }
  }
}

// A ring pass among `members`: parts[i] is what member i is responsible for.
void reduce_ring(Vectors& vectors, const std::vector<std::vector<std::size_t>>& rings,
                 const std::function<Elements(std::size_t ring, std::size_t part)>& part,
                 std::size_t owned_after, bool adds) {
  const std::size_t n = rings.front().size();
  for (std::size_t s = 0; s + 1 < n; ++s) {
    Transfers transfers;
    for (std::size_t r = 0; r < rings.size(); ++r) {
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t index = (i + owned_after + 2 * n - s) % n;
        transfers.push_back({rings[r][i], rings[r][(i + 1) % n], part(r, index), adds});
      }
    }
    vectors.round(transfers);
  }
}

std::vector<std::vector<std::size_t>> node_rings(std::size_t n, std::size_t g) {
  std::vector<std::vector<std::size_t>> rings(n / g);
  for (std::size_t rank = 0; rank < n; ++rank) rings[rank / g].push_back(rank);
  return rings;
}
std::vector<std::vector<std::size_t>> place_rings(std::size_t n, std::size_t g) {
  std::vector<std::vector<std::size_t>> rings(g);
  for (std::size_t rank = 0; rank < n; ++rank) rings[rank % g].push_back(rank);
  return rings;
}

void hierarchical_all_reduce(Vectors& vectors, std::size_t n, std::size_t g, std::size_t count) {
  const auto inside = [&](std::size_t, std::size_t part) { return chunk(count, g, part); };
  const auto across = [&](std::size_t place, std::size_t part) {
    const Chunk whole = chunk_of(count, g, place);
    Elements elements = chunk(whole.count, n / g, part);
    for (std::size_t& e : elements) e += whole.begin;
    return elements;
  };
  reduce_ring(vectors, node_rings(n, g), inside, g - 1, true);
  reduce_ring(vectors, place_rings(n, g), across, 0, true);
  reduce_ring(vectors, place_rings(n, g), across, 1, false);
  reduce_ring(vectors, node_rings(n, g), inside, 0, false);
}

Elements place_set(std::size_t count, std::size_t n, std::size_t g, std::size_t place) {
  Elements set;
  for (std::size_t i = place; i < n; i += g) {
    for (const std::size_t e : chunk(count, n, i)) set.push_back(e);
  }
  return set;
}

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
      reduce_ring(
          vectors, place_rings(n, g),
          [&](std::size_t place, std::size_t node) { return chunk(count, n, node * g + place); }, 0,
          false);
      reduce_ring(
          vectors, node_rings(n, g),
          [&](std::size_t, std::size_t place) { return place_set(count, n, g, place); }, 0, false);
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
      reduce_ring(
          vectors, node_rings(n, g),
          [&](std::size_t, std::size_t place) { return place_set(count, n, g, place); }, g - 1,
          true);
      reduce_ring(
          vectors, place_rings(n, g),
          [&](std::size_t place, std::size_t node) { return chunk(count, n, node * g + place); },
          n / g - 1, true);
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
