#include "collectives/canonical/canonical.h"

#include <algorithm>
#include <cstring>
#include <string>
#include <vector>

#include "base/error.h"
#include "collectives/algorithms/copy.h"
#include "collectives/reduce.h"

namespace nqd::collectives {
namespace {

// Bytes of every row that are added before the next: they and the result stay in the cache.
constexpr std::size_t kBlockBytes = 16384;

struct Row {
  IndexRange node;
  std::size_t holder = 0;  // rank
  std::span<std::byte> part;
};

struct Exchange {
  Communicator& world;
  Scratch& scratch;
  const ContributionLayout& layout;
  Accumulator& mine;
  Algorithm algorithm;

  std::size_t ranks() const { return static_cast<std::size_t>(world.size()); }
  std::size_t element() const { return size_bytes(mine.type()); }
  Chunk own_chunk() const {
    return chunk_of(mine.count(), ranks(), static_cast<std::size_t>(world.rank()));
  }
};

void check(const Exchange& exchange, ReduceOp op) {
  const auto rank = static_cast<std::size_t>(exchange.world.rank());
  const Accumulator& mine = exchange.mine;
  std::string problem;
  if (op != ReduceOp::kSum && op != ReduceOp::kAvg) {
    problem = "canonical reductions are sums and averages, not " + std::string(name(op));
  } else if (exchange.layout.ranks() != exchange.ranks()) {
    problem = "a layout of " + std::to_string(exchange.layout.ranks()) + " ranks on " +
              std::to_string(exchange.ranks());
  } else if (mine.total() != exchange.layout.total() ||
             mine.range() != exchange.layout.range(rank)) {
    problem = "rank " + std::to_string(rank) + " accumulates other contributions than its layout " +
              "says";
  } else if (!mine.is_complete()) {
    problem = "rank " + std::to_string(rank) + " has not added all of its contributions";
  }
  if (problem.empty()) return;
  throw Error(ExitCode::kUsage, "NQD2103", problem,
              "make layout and accumulator from the same ranges, and add every contribution first");
}

void check_out(std::span<std::byte> out, std::size_t elements, DType type) {
  if (out.size() == elements * size_bytes(type)) return;
  throw Error(ExitCode::kUsage, "NQD2103",
              "a canonical sum of " + std::to_string(elements) + " elements of " +
                  std::string(name(type)) + " into " + std::to_string(out.size()) + " bytes",
              "size the output as the sum, or as chunk_of(count, ranks, rank) of it");
}

// This rank's part of the nodes of one round; `rows` are theirs, behind one another in `room`.
void run_round(const Exchange& exchange, std::size_t round, std::span<const Row> rows,
               std::span<std::byte> room) {
  const auto rank = static_cast<std::size_t>(exchange.world.rank());
  const bool gives = round < exchange.layout.nodes(rank).size();
  std::span<const std::byte> in;
  if (gives) in = exchange.mine.vector(round);
  const DType type = exchange.mine.type();
  // Without an exchange of counts where every rank has a node.
  if (rows.size() == exchange.ranks()) {
    return exchange.world.all_to_all(in, room, type, exchange.algorithm);
  }
  std::vector<std::size_t> given(exchange.ranks(), 0);
  std::vector<std::size_t> taken(exchange.ranks(), 0);
  for (std::size_t peer = 0; gives && peer < given.size(); ++peer) {
    given[peer] = chunk_of(exchange.mine.count(), given.size(), peer).count;
  }
  for (const Row& row : rows) taken[row.holder] = exchange.own_chunk().count;
  exchange.world.all_to_all_v(in, given, room, taken, type, exchange.algorithm);
}

// This rank's part of every node of every rank, in the order of the nodes.
std::vector<Row> gather_rows(const Exchange& exchange) {
  const std::size_t bytes = exchange.own_chunk().count * exchange.element();
  const std::span<std::byte> room = exchange.scratch.take(exchange.layout.all_nodes() * bytes);
  std::vector<Row> rows;
  for (std::size_t round = 0; round < exchange.layout.most_nodes(); ++round) {
    const std::size_t first = rows.size();
    for (std::size_t holder = 0; holder < exchange.ranks(); ++holder) {
      const auto nodes = exchange.layout.nodes(holder);
      if (round >= nodes.size()) continue;
      rows.push_back({nodes[round], holder, room.subspan(rows.size() * bytes, bytes)});
    }
    run_round(exchange, round, std::span(rows).subspan(first),
              room.subspan(first * bytes, (rows.size() - first) * bytes));
  }
  std::sort(rows.begin(), rows.end(),
            [](const Row& a, const Row& b) { return a.node.begin < b.node.begin; });
  return rows;
}

// Adds the rows in the tree, into `out`.
void add_rows(const std::vector<Row>& rows, std::size_t total, std::span<std::byte> out,
              DType type) {
  std::vector<IndexRange> nodes;
  for (const Row& row : rows) nodes.push_back(row.node);
  const std::vector<Merge> order = merges(nodes, total);
  for (std::size_t begin = 0; begin < out.size(); begin += kBlockBytes) {
    const std::size_t bytes = std::min(kBlockBytes, out.size() - begin);
    const auto block = [&](std::size_t row) { return rows[row].part.subspan(begin, bytes); };
    for (const Merge& merge : order) {
      reduce(block(merge.into), block(merge.into), block(merge.from), type, ReduceOp::kSum);
    }
    std::memcpy(out.data() + begin, block(0).data(), bytes);
  }
}

// The sum of one vector a rank.
void reduce_even(const Exchange& exchange, Collective collective, std::span<std::byte> out,
                 ReduceOp op) {
  const std::size_t total = exchange.layout.total();
  // The collective divides by the number of ranks.
  const bool divides = op == ReduceOp::kAvg && total == exchange.ranks();
  const ReduceOp inner = divides ? ReduceOp::kAvg : ReduceOp::kSum;
  const std::span<const std::byte> in = exchange.mine.vector(0);
  if (collective == Collective::kAllReduce) {
    exchange.world.all_reduce(in, out, exchange.mine.type(), inner, exchange.algorithm);
  } else {
    exchange.world.reduce_scatter(in, out, exchange.mine.type(), inner, exchange.algorithm);
  }
  if (op == ReduceOp::kAvg && !divides) {
    divide_by(out, exchange.mine.type(), static_cast<int>(total));
  }
}

void reduce_uneven(const Exchange& exchange, std::span<std::byte> own_part, ReduceOp op) {
  add_rows(gather_rows(exchange), exchange.layout.total(), own_part, exchange.mine.type());
  if (op == ReduceOp::kAvg) {
    divide_by(own_part, exchange.mine.type(), static_cast<int>(exchange.layout.total()));
  }
}

Exchange make_exchange(Communicator& world, Scratch& scratch, const ContributionLayout& layout,
                       Accumulator& mine, Collective collective, Algorithm algorithm) {
  const bool reaches_memory =
      world.chosen(Collective::kAllToAll, Algorithm::kAuto) == Algorithm::kDirect;
  return {world, scratch, layout, mine,
          canonical_choice(collective, layout, mine.count() * size_bytes(mine.type()), mine.type(),
                           reaches_memory, algorithm)};
}

}  // namespace

void canonical_all_reduce(Communicator& world, Scratch& scratch, const ContributionLayout& layout,
                          Accumulator& mine, std::span<std::byte> out, ReduceOp op,
                          Algorithm algorithm) {
  const Exchange exchange =
      make_exchange(world, scratch, layout, mine, Collective::kAllReduce, algorithm);
  check(exchange, op);
  check_out(out, mine.count(), mine.type());
  if (layout.is_even()) return reduce_even(exchange, Collective::kAllReduce, out, op);
  const Chunk own = exchange.own_chunk();
  const auto part = out.subspan(own.begin * exchange.element(), own.count * exchange.element());
  reduce_uneven(exchange, part, op);
  world.all_gather(
      part, out, mine.type(),
      exchange.algorithm == Algorithm::kDirect ? Algorithm::kDirect : Algorithm::kRing);
}

void canonical_reduce_scatter(Communicator& world, Scratch& scratch,
                              const ContributionLayout& layout, Accumulator& mine,
                              std::span<std::byte> out, ReduceOp op, Algorithm algorithm) {
  const Exchange exchange =
      make_exchange(world, scratch, layout, mine, Collective::kReduceScatter, algorithm);
  check(exchange, op);
  check_out(out, exchange.own_chunk().count, mine.type());
  if (layout.is_even()) return reduce_even(exchange, Collective::kReduceScatter, out, op);
  reduce_uneven(exchange, out, op);
}

}  // namespace nqd::collectives
