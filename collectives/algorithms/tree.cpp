#include "collectives/algorithms/tree.h"

#include <cstring>

#include "collectives/reduce.h"

namespace nqd::collectives {
namespace {

// The power of two that leads from `relative` to its parent; for the root, the first one >= n.
int parent_distance(int relative, int n) {
  int distance = 1;
  while (distance < n && (relative & distance) == 0) distance <<= 1;
  return distance;
}

}  // namespace

void tree_broadcast(Transport& transport, std::span<std::byte> data, int root) {
  const int n = transport.size();
  if (data.empty() || n == 1) return;
  const int relative = (transport.rank() - root + n) % n;
  const auto absolute = [&](int rank) { return (rank + root) % n; };
  const int distance = parent_distance(relative, n);
  if (relative != 0) {
    transport.receive(data, absolute(relative - distance));
    transport.wait();
  }
  // Farthest child first: it has the deepest subtree below it.
  for (int child = distance >> 1; child > 0; child >>= 1) {
    if (relative + child < n) transport.send(data, absolute(relative + child));
  }
  transport.wait();
}

void tree_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                 std::span<std::byte> out, DType type, ReduceOp op, int root) {
  const int n = transport.size();
  const int relative = (transport.rank() - root + n) % n;
  const auto absolute = [&](int rank) { return (rank + root) % n; };
  const bool is_root = relative == 0;
  if (in.empty()) return;
  const int distance = parent_distance(relative, n);
  const bool has_children = distance > 1 && relative + 1 < n;
  const auto both = has_children ? scratch.take(2 * in.size()) : scratch.take(0);
  std::span<const std::byte> partial = in;
  for (int child = 1; child < distance && relative + child < n; child <<= 1) {
    const auto received = both.first(in.size());
    transport.receive(received, absolute(relative + child));
    transport.wait();
    const auto sum = is_root ? out : both.subspan(in.size());
    reduce(sum, received, partial, type, op);
    partial = sum;
  }
  if (!is_root) {
    transport.send(partial, absolute(relative - distance));
    transport.wait();
    return;
  }
  if (partial.data() != out.data()) std::memcpy(out.data(), partial.data(), partial.size());
  if (op == ReduceOp::kAvg) divide_by(out, type, n);
}

void tree_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                     std::span<std::byte> out, DType type, ReduceOp op) {
  const int n = transport.size();
  const int rank = transport.rank();
  if (in.empty()) return;
  std::span<const std::byte> partial = in;
  const int distance = parent_distance(rank, n);
  for (int child = 1; child < distance && rank + child < n; child <<= 1) {
    const std::span<std::byte> received = scratch.take(in.size());
    transport.receive(received, rank + child);
    transport.wait();
    reduce(out, received, partial, type, op);
    partial = out;
  }
  if (rank != 0) {
    transport.send(partial, rank - distance);
    transport.wait();
  } else if (partial.data() != out.data()) {
    std::memcpy(out.data(), partial.data(), partial.size());
  }
  if (rank == 0 && op == ReduceOp::kAvg) divide_by(out, type, n);
  tree_broadcast(transport, out, 0);
}

void dissemination_barrier(Transport& transport) {
  const int n = transport.size();
  const int rank = transport.rank();
  for (int distance = 1; distance < n; distance <<= 1) {
    transport.receive({}, (rank - distance + n) % n);
    transport.send({}, (rank + distance) % n);
    transport.wait();
  }
}

}  // namespace nqd::collectives
