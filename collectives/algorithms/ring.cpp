#include "collectives/algorithms/ring.h"

#include "collectives/algorithms/copy.h"
#include "collectives/algorithms/pieces.h"
#include "collectives/reduce.h"

namespace nqd::collectives {
namespace {

// The ring as one rank sees it, for a vector of `bytes` bytes.
class Ring {
 public:
  Ring(Transport& transport, std::size_t bytes, DType type)
      : transport_(transport),
        n_(static_cast<std::size_t>(transport.size())),
        rank_(static_cast<std::size_t>(transport.rank())),
        element_(size_bytes(type)),
        count_(bytes / element_) {}

  std::size_t size() const { return n_; }
  // The index of the chunk `back` places before this rank's own.
  std::size_t before(std::size_t back) const { return (rank_ + 2 * n_ - back) % n_; }
  std::size_t chunk_bytes(std::size_t index) const {
    return chunk_of(count_, n_, index).count * element_;
  }
  template <typename Byte>
  std::span<Byte> chunk(std::span<Byte> vector, std::size_t index) const {
    return vector.subspan(chunk_of(count_, n_, index).begin * element_, chunk_bytes(index));
  }

  // Posts one exchange: what leaves to the right and what comes from the left. Both ends derive the
  // same sizes, so nothing is skipped by one end alone. A later piece of a chunk is no new message.
  void post(std::span<const std::byte> to_right, std::span<std::byte> from_left,
            bool later = false) {
    const auto right = static_cast<int>((rank_ + 1) % n_);
    const auto left = static_cast<int>((rank_ + n_ - 1) % n_);
    if (!from_left.empty()) transport_.receive(from_left, left);
    if (to_right.empty()) return;
    if (later) {
      transport_.send_more(to_right, right);
    } else {
      transport_.send(to_right, right);
    }
  }
  void step(std::span<const std::byte> to_right, std::span<std::byte> from_left) {
    post(to_right, from_left);
    transport_.wait();
  }
  void wait() { transport_.wait(); }

 private:
  Transport& transport_;
  std::size_t n_;
  std::size_t rank_;
  std::size_t element_;
  std::size_t count_;
};

// One exchange of the pass that reduces: piece `piece` of the chunk of step `step`.
struct Turn {
  std::size_t step = 0;
  std::size_t piece = 0;
};

// The pass that reduces, n−1 steps of `pieces` pieces each. With several pieces, one is added while
// the next is on its way; what a turn sends was added two turns ago or earlier.
template <typename Outgoing, typename Incoming, typename Add>
void reduce_pass(Ring& ring, std::size_t pieces, Outgoing outgoing, Incoming incoming, Add add) {
  const std::size_t turns = (ring.size() - 1) * pieces;
  const auto turn = [&](std::size_t t) { return Turn{t / pieces, t % pieces}; };
  for (std::size_t t = 0; t < turns; ++t) {
    if (pieces == 1 && t > 0) add(turn(t - 1));
    ring.post(outgoing(turn(t)), incoming(turn(t)), turn(t).piece > 0);
    if (pieces > 1 && t > 0) add(turn(t - 1));
    ring.wait();
  }
  add(turn(turns - 1));
}

// Piece `index` of `pieces` of a chunk.
template <typename Byte>
std::span<Byte> piece_of(std::span<Byte> chunk, std::size_t element, std::size_t pieces,
                         std::size_t index) {
  const Chunk part = chunk_of(chunk.size() / element, pieces, index);
  return chunk.subspan(part.begin * element, part.count * element);
}

}  // namespace

void ring_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                     std::span<std::byte> out, DType type, ReduceOp op) {
  Ring ring(transport, in.size(), type);
  const std::size_t n = ring.size();
  if (n == 1) return copy(out, in);
  const std::size_t element = size_bytes(type);
  const std::size_t pieces = pieces_of(ring.chunk_bytes(0));
  const std::size_t both = ring_scratch_bytes(ring.chunk_bytes(0) / element, element);
  const std::span<std::byte> received = scratch.take(both);
  const auto target = [&](const Turn& turn) {
    return piece_of(ring.chunk(out, ring.before(turn.step + 1)), element, pieces, turn.piece);
  };
  const auto own = [&](std::size_t chunk, const Turn& turn) {
    return piece_of(ring.chunk(in, ring.before(chunk)), element, pieces, turn.piece);
  };
  const auto incoming = [&](const Turn& turn) {
    const std::size_t half = (turn.step * pieces + turn.piece) % 2;
    return received.subspan(pieces == 1 ? 0 : half * (both / 2), target(turn).size());
  };
  const auto outgoing = [&](const Turn& turn) -> std::span<const std::byte> {
    if (turn.step == 0) return own(0, turn);
    return target({turn.step - 1, turn.piece});
  };
  reduce_pass(ring, pieces, outgoing, incoming, [&](const Turn& turn) {
    reduce(target(turn), incoming(turn), own(turn.step + 1, turn), type, op);
  });
  // This rank holds the whole reduction of chunk i+1; scaling it here, once, keeps all ranks equal.
  const auto owned = ring.chunk(out, ring.before(n - 1));
  if (op == ReduceOp::kAvg) divide_by(owned, type, static_cast<int>(n));
  for (std::size_t s = 0; s + 1 < n; ++s) {
    ring.step(ring.chunk(out, ring.before(s + n - 1)), ring.chunk(out, ring.before(s)));
  }
}

void ring_all_gather(Transport& transport, std::span<const std::byte> in, std::span<std::byte> out,
                     DType type) {
  Ring ring(transport, out.size(), type);
  copy(ring.chunk(out, ring.before(0)), in);
  for (std::size_t s = 0; s + 1 < ring.size(); ++s) {
    ring.step(ring.chunk(out, ring.before(s)), ring.chunk(out, ring.before(s + 1)));
  }
}

void ring_reduce_scatter(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                         std::span<std::byte> out, DType type, ReduceOp op) {
  Ring ring(transport, in.size(), type);
  const std::size_t n = ring.size();
  if (n == 1) return copy(out, in);
  const std::size_t element = size_bytes(type);
  const std::size_t longest = ring.chunk_bytes(0);
  const std::size_t pieces = pieces_of(longest);
  const std::span<std::byte> both = scratch.take(2 * longest);
  const auto own = [&](std::size_t chunk, const Turn& turn) {
    return piece_of(ring.chunk(in, ring.before(chunk)), element, pieces, turn.piece);
  };
  const auto incoming = [&](const Turn& turn) {
    const auto chunk =
        both.subspan(turn.step % 2 * longest, ring.chunk_bytes(ring.before(turn.step + 2)));
    return piece_of(chunk, element, pieces, turn.piece);
  };
  const auto outgoing = [&](const Turn& turn) -> std::span<const std::byte> {
    if (turn.step == 0) return own(1, turn);
    return incoming({turn.step - 1, turn.piece});
  };
  reduce_pass(ring, pieces, outgoing, incoming, [&](const Turn& turn) {
    const bool last = turn.step + 2 == n;
    const auto sum = last ? piece_of(out, element, pieces, turn.piece) : incoming(turn);
    reduce(sum, incoming(turn), own(turn.step + 2, turn), type, op);
  });
  if (op == ReduceOp::kAvg) divide_by(out, type, static_cast<int>(n));
}

}  // namespace nqd::collectives
