#include "collectives/algorithms/doubling.h"

#include <bit>

#include "collectives/algorithms/copy.h"
#include "collectives/reduce.h"

namespace nqd::collectives {
namespace {

// Sends and receives at once; empty parts are skipped by both ends.
void exchange(Transport& transport, std::size_t peer, std::span<const std::byte> to_peer,
              std::span<std::byte> from_peer) {
  if (!from_peer.empty()) transport.receive(from_peer, static_cast<int>(peer));
  if (!to_peer.empty()) transport.send(to_peer, static_cast<int>(peer));
  transport.wait();
}

// Adds what a partner sent, lower rank first.
void add(std::span<std::byte> mine, std::span<const std::byte> theirs, bool theirs_first,
         DType type, ReduceOp op) {
  if (theirs_first) {
    reduce(mine, theirs, mine, type, op);
  } else {
    reduce(mine, mine, theirs, type, op);
  }
}

// The ranks that take part in the exchanges, after folding.
struct Fold {
  explicit Fold(const Transport& transport)
      : n(static_cast<std::size_t>(transport.size())),
        rank(static_cast<std::size_t>(transport.rank())),
        m(std::bit_floor(n)),
        extra(n - m),
        paired(rank < 2 * extra),
        away(paired && rank % 2 == 0),
        place(paired ? rank / 2 : rank - extra) {}

  std::size_t rank_of(std::size_t at) const { return at < extra ? 2 * at + 1 : at + extra; }

  std::size_t n;
  std::size_t rank;
  std::size_t m;
  std::size_t extra;
  bool paired;
  bool away;          // gives its vector away and waits
  std::size_t place;  // among the m
};

// Runs `inner`, which reduces `out` over the m places, between folding and handing back.
template <typename Inner>
void folded(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
            std::span<std::byte> out, DType type, ReduceOp op, const Inner& inner) {
  const Fold fold(transport);
  if (in.empty() || fold.n == 1) return copy(out, in);
  if (fold.away) {
    exchange(transport, fold.rank + 1, in, {});
    return exchange(transport, fold.rank + 1, {}, out);
  }
  copy(out, in);
  if (fold.paired) {
    const auto received = scratch.take(in.size());
    exchange(transport, fold.rank - 1, {}, received);
    add(out, received, true, type, op);
  }
  inner(fold);
  if (fold.paired) exchange(transport, fold.rank - 1, out, {});
}

// The chunks [first, first + length) of a vector cut in m.
struct Blocks {
  std::size_t first = 0;
  std::size_t length = 0;
};

template <typename Byte>
std::span<Byte> bytes_of_blocks(std::span<Byte> vector, const Blocks& blocks, std::size_t m,
                                std::size_t element) {
  const std::size_t count = vector.size() / element;
  const std::size_t begin = chunk_of(count, m, blocks.first).begin;
  const std::size_t end = chunk_of(count, m, blocks.first + blocks.length).begin;
  return vector.subspan(begin * element, (end - begin) * element);
}

// `place` with its lowest log2(m) bits reversed.
std::size_t reversed(std::size_t place, std::size_t m) {
  std::size_t result = 0;
  for (std::size_t bit = 1; bit < m; bit <<= 1) {
    result = result << 1 | ((place & bit) != 0 ? 1 : 0);
  }
  return result;
}

// Halves what `slot` of m is responsible for until its own chunk is left. `partner_of(half)` is the
// rank whose slot differs in the bit `half`; `room` is as long as the vector.
template <typename PartnerOf>
void halve(Transport& transport, std::span<std::byte> room, std::span<std::byte> vector,
           std::size_t slot, std::size_t m, DType type, ReduceOp op, const PartnerOf& partner_of) {
  const std::size_t element = size_bytes(type);
  std::size_t first = 0;
  for (std::size_t half = m / 2; half > 0; half /= 2) {
    const bool upper = (slot & half) != 0;
    const Blocks kept{upper ? first + half : first, half};
    const Blocks given{upper ? first : first + half, half};
    const auto mine = bytes_of_blocks(vector, kept, m, element);
    const auto received = room.first(mine.size());
    const std::size_t peer = partner_of(half);
    exchange(transport, peer, bytes_of_blocks(vector, given, m, element), received);
    add(mine, received, peer < static_cast<std::size_t>(transport.rank()), type, op);
    first = kept.first;
  }
}

// The way back: every block grows by its partner's.
template <typename PartnerOf>
void redouble(Transport& transport, std::span<std::byte> vector, std::size_t slot, std::size_t m,
              std::size_t element, const PartnerOf& partner_of) {
  for (std::size_t block = 1; block < m; block *= 2) {
    const std::size_t mine = slot / block * block;
    exchange(transport, partner_of(block), bytes_of_blocks(vector, {mine, block}, m, element),
             bytes_of_blocks(vector, {mine ^ block, block}, m, element));
  }
}

}  // namespace

void recursive_doubling_all_reduce(Transport& transport, Scratch& scratch,
                                   std::span<const std::byte> in, std::span<std::byte> out,
                                   DType type, ReduceOp op) {
  folded(transport, scratch, in, out, type, op, [&](const Fold& fold) {
    for (std::size_t distance = 1; distance < fold.m; distance *= 2) {
      const std::size_t peer = fold.rank_of(fold.place ^ distance);
      const auto received = scratch.take(out.size());
      exchange(transport, peer, out, received);
      add(out, received, peer < fold.rank, type, op);
    }
    if (op == ReduceOp::kAvg) divide_by(out, type, transport.size());
  });
}

void halving_doubling_all_reduce(Transport& transport, Scratch& scratch,
                                 std::span<const std::byte> in, std::span<std::byte> out,
                                 DType type, ReduceOp op) {
  folded(transport, scratch, in, out, type, op, [&](const Fold& fold) {
    // The slot's highest bit is the place's lowest: the first partner is the nearest.
    const std::size_t slot = reversed(fold.place, fold.m);
    const auto partner_of = [&](std::size_t bit) {
      return fold.rank_of(fold.place ^ reversed(bit, fold.m));
    };
    halve(transport, scratch.take(out.size()), out, slot, fold.m, type, op, partner_of);
    if (op == ReduceOp::kAvg) {
      divide_by(bytes_of_blocks(out, {slot, 1}, fold.m, size_bytes(type)), type, transport.size());
    }
    redouble(transport, out, slot, fold.m, size_bytes(type), partner_of);
  });
}

void halving_reduce_scatter(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                            std::span<std::byte> out, DType type, ReduceOp op) {
  const auto n = static_cast<std::size_t>(transport.size());
  const auto rank = static_cast<std::size_t>(transport.rank());
  if (n == 1) return copy(out, in);
  const std::span<std::byte> both = scratch.take(2 * in.size());
  const std::span<std::byte> work = both.first(in.size());
  copy(work, in);
  halve(transport, both.subspan(in.size()), work, rank, n, type, op,
        [&](std::size_t bit) { return rank ^ bit; });
  copy(out, bytes_of_blocks(work, {rank, 1}, n, size_bytes(type)));
  if (op == ReduceOp::kAvg) divide_by(out, type, transport.size());
}

void doubling_all_gather(Transport& transport, std::span<const std::byte> in,
                         std::span<std::byte> out, DType type) {
  const auto n = static_cast<std::size_t>(transport.size());
  const auto rank = static_cast<std::size_t>(transport.rank());
  copy(bytes_of_blocks(out, {rank, 1}, n, size_bytes(type)), in);
  redouble(transport, out, rank, n, size_bytes(type), [&](std::size_t bit) { return rank ^ bit; });
}

}  // namespace nqd::collectives
