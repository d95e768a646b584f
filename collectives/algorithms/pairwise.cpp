#include "collectives/algorithms/pairwise.h"

#include <cstring>
#include <vector>

#include "collectives/algorithms/copy.h"
#include "collectives/algorithms/parts.h"
#include "collectives/algorithms/ring.h"
#include "collectives/reduce_tree.h"

namespace nqd::collectives {
namespace {

// Part r of `in` goes to rank r; what rank r sends arrives in its row of `out`, rows of `row`
// bytes.
void exchange_all(Transport& transport, std::span<const std::byte> in, std::span<std::byte> out,
                  DType type, std::size_t row) {
  const auto n = static_cast<std::size_t>(transport.size());
  const auto rank = static_cast<std::size_t>(transport.rank());
  const std::size_t element = size_bytes(type);
  const auto part = [&](std::size_t of) {
    const Chunk chunk = chunk_of(in.size() / element, n, of);
    return in.subspan(chunk.begin * element, chunk.count * element);
  };
  if (row > 0) std::memcpy(out.data() + rank * row, part(rank).data(), row);
  for (std::size_t s = 1; s < n; ++s) {
    const std::size_t right = (rank + s) % n;
    const std::size_t left = (rank + n - s) % n;
    if (row > 0) transport.receive(out.subspan(left * row, row), static_cast<int>(left));
    if (!part(right).empty()) transport.send(part(right), static_cast<int>(right));
    transport.wait();
  }
}

std::size_t own_bytes(const Transport& transport, std::size_t vector_bytes, DType type) {
  return chunk_of(vector_bytes / size_bytes(type), static_cast<std::size_t>(transport.size()),
                  static_cast<std::size_t>(transport.rank()))
             .count *
         size_bytes(type);
}

}  // namespace

void pairwise_all_to_all(Transport& transport, std::span<const std::byte> in,
                         std::span<std::byte> out, DType type) {
  exchange_all(transport, in, out, type, own_bytes(transport, in.size(), type));
}

void pairwise_all_to_all_v(Transport& transport, const CollectiveCall& call) {
  const auto n = static_cast<std::size_t>(transport.size());
  const auto rank = static_cast<std::size_t>(transport.rank());
  const std::vector<Bytes> given = parts_in_bytes(call.in_counts, call.type);
  const std::vector<Bytes> taken = parts_in_bytes(call.out_counts, call.type);
  const auto in = [&](std::size_t of) { return call.in.subspan(given[of].begin, given[of].count); };
  const auto out = [&](std::size_t of) {
    return call.out.subspan(taken[of].begin, taken[of].count);
  };
  check_part(Collective::kAllToAll, transport.rank(), given[rank].count, taken[rank].count);
  copy(out(rank), in(rank));
  for (std::size_t s = 1; s < n; ++s) {
    const std::size_t right = (rank + s) % n;
    const std::size_t left = (rank + n - s) % n;
    transport.receive(out(left), static_cast<int>(left));
    transport.send(in(right), static_cast<int>(right));
    transport.wait();
  }
}

void pairwise_reduce_scatter(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                             std::span<std::byte> out, DType type, ReduceOp op) {
  const auto n = static_cast<std::size_t>(transport.size());
  if (n == 1) return copy(out, in);
  const std::size_t row = own_bytes(transport, in.size(), type);
  const std::span<std::byte> rows = scratch.take(n * row);
  exchange_all(transport, in, rows, type, row);
  std::vector<const std::byte*> sources;
  for (std::size_t r = 0; r < n; ++r) sources.push_back(rows.data() + r * row);
  std::byte* const target = out.data();
  reduce_tree({&target, 1}, sources, row, type, op, 0);
}

void pairwise_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                         std::span<std::byte> out, DType type, ReduceOp op) {
  const Chunk chunk =
      chunk_of(in.size() / size_bytes(type), static_cast<std::size_t>(transport.size()),
               static_cast<std::size_t>(transport.rank()));
  const auto part = out.subspan(chunk.begin * size_bytes(type), chunk.count * size_bytes(type));
  pairwise_reduce_scatter(transport, scratch, in, part, type, op);
  ring_all_gather(transport, part, out, type);
}

}  // namespace nqd::collectives
