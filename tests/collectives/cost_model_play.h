// Ranks that play an algorithm message by message: what they hold in the end, and what each sent.
#pragma once

#include <doctest/doctest.h>

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <numeric>
#include <vector>

#include "collectives/cost.h"

namespace nqd::collectives {

using Elements = std::vector<std::size_t>;

inline Elements range(std::size_t count, std::size_t n, std::size_t first, std::size_t length) {
  const std::size_t begin = chunk_of(count, n, first).begin;
  Elements elements(chunk_of(count, n, first + length).begin - begin);
  std::iota(elements.begin(), elements.end(), begin);
  return elements;
}
inline Elements chunk(std::size_t count, std::size_t n, std::size_t i) {
  return range(count, n, i, 1);
}

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

inline Elements everything(std::size_t count) { return range(count, 1, 0, 1); }

// Folds onto the ranks that go on, or returns the result; the ranks that go on, in order.
inline std::vector<std::size_t> fold(Vectors& vectors, std::size_t n, std::size_t count,
                                     bool back) {
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

inline void recursive_doubling(Vectors& vectors, std::size_t n, std::size_t count) {
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

inline void halve(Vectors& vectors, const std::vector<std::size_t>& active, std::size_t count) {
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

inline void double_up(Vectors& vectors, const std::vector<std::size_t>& active, std::size_t count) {
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

inline void halving_doubling(Vectors& vectors, std::size_t n, std::size_t count) {
  const auto places = fold(vectors, n, count, false);
  // The nearest exchange first: a place takes the slot with its bits reversed.
  std::vector<std::size_t> active(places.size());
  for (std::size_t place = 0; place < places.size(); ++place) {
    std::size_t slot = 0;
    for (std::size_t bit = 1; bit < places.size(); bit *= 2) {
      slot = 2 * slot + ((place & bit) != 0 ? 1 : 0);
    }
    active[slot] = places[place];
  }
  halve(vectors, active, count);
  double_up(vectors, active, count);
  fold(vectors, n, count, true);
}

// The in-order binary tree on places 1 … n−1 below place 0, as (parent, child) by depth.
struct Edge {
  std::size_t parent, child, depth;
};
inline void in_order(std::size_t parent, std::size_t first, std::size_t n, std::size_t span,
                     std::size_t depth, std::vector<Edge>& edges) {
  // The places first … first + 2·span − 2 hang below the middle one that is there.
  if (span == 0 || first >= n) return;
  const std::size_t middle = first + span - 1;
  if (middle >= n) return in_order(parent, first, n, span / 2, depth, edges);
  edges.push_back({parent, middle, depth});
  in_order(middle, first, n, span / 2, depth + 1, edges);
  in_order(middle, middle + 1, n, span / 2, depth + 1, edges);
}

inline void double_tree(Vectors& vectors, std::size_t n, std::size_t count) {
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
inline void reduce_ring(Vectors& vectors, const std::vector<std::vector<std::size_t>>& rings,
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

inline std::vector<std::vector<std::size_t>> node_rings(std::size_t n, std::size_t g) {
  std::vector<std::vector<std::size_t>> rings(n / g);
  for (std::size_t rank = 0; rank < n; ++rank) rings[rank / g].push_back(rank);
  return rings;
}
inline std::vector<std::vector<std::size_t>> place_rings(std::size_t n, std::size_t g) {
  std::vector<std::vector<std::size_t>> rings(g);
  for (std::size_t rank = 0; rank < n; ++rank) rings[rank % g].push_back(rank);
  return rings;
}

// Every member sends to every other: the part that the target owns, or its own.
inline void exchange_pairs(Vectors& vectors, const std::vector<std::vector<std::size_t>>& groups,
                           const std::function<Elements(std::size_t group, std::size_t part)>& part,
                           bool adds) {
  const std::size_t n = groups.front().size();
  for (std::size_t s = 1; s < n; ++s) {
    Transfers transfers;
    for (std::size_t r = 0; r < groups.size(); ++r) {
      for (std::size_t i = 0; i < n; ++i) {
        const std::size_t target = (i + s) % n;
        transfers.push_back({groups[r][i], groups[r][target], part(r, adds ? target : i), adds});
      }
    }
    vectors.round(transfers);
  }
}

inline void hierarchical_all_reduce(Vectors& vectors, std::size_t n, std::size_t g,
                                    std::size_t count) {
  const auto inside = [&](std::size_t, std::size_t part) { return chunk(count, g, part); };
  const auto across = [&](std::size_t place, std::size_t part) {
    const Chunk whole = chunk_of(count, g, place);
    Elements elements = chunk(whole.count, n / g, part);
    for (std::size_t& e : elements) e += whole.begin;
    return elements;
  };
  exchange_pairs(vectors, node_rings(n, g), inside, true);
  exchange_pairs(vectors, place_rings(n, g), across, true);
  reduce_ring(vectors, place_rings(n, g), across, 0, false);
  exchange_pairs(vectors, node_rings(n, g), inside, false);
}

inline Elements place_set(std::size_t count, std::size_t n, std::size_t g, std::size_t place) {
  Elements set;
  for (std::size_t i = place; i < n; i += g) {
    for (const std::size_t e : chunk(count, n, i)) set.push_back(e);
  }
  return set;
}

}  // namespace nqd::collectives
