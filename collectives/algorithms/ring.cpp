#include "collectives/algorithms/ring.h"

#include "collectives/algorithms/copy.h"
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

  // One step. Both ends derive the same chunk sizes, so an empty chunk is skipped by both.
  void step(std::span<const std::byte> to_right, std::span<std::byte> from_left) {
    const auto right = static_cast<int>((rank_ + 1) % n_);
    const auto left = static_cast<int>((rank_ + n_ - 1) % n_);
    if (!from_left.empty()) transport_.receive(from_left, left);
    if (!to_right.empty()) transport_.send(to_right, right);
    transport_.wait();
  }

 private:
  Transport& transport_;
  std::size_t n_;
  std::size_t rank_;
  std::size_t element_;
  std::size_t count_;
};

}  // namespace

void ring_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                     std::span<std::byte> out, DType type, ReduceOp op) {
  Ring ring(transport, in.size(), type);
  const std::size_t n = ring.size();
  if (n == 1) return copy(out, in);
  const std::span<std::byte> received = scratch.take(ring.chunk_bytes(0));
  std::span<const std::byte> outgoing = ring.chunk(in, ring.before(0));
  for (std::size_t s = 0; s + 1 < n; ++s) {
    const std::size_t index = ring.before(s + 1);
    const auto incoming = received.first(ring.chunk_bytes(index));
    ring.step(outgoing, incoming);
    const auto partial = ring.chunk(out, index);
    reduce(partial, incoming, ring.chunk(in, index), type, op);
    outgoing = partial;
  }
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
  const std::size_t longest = ring.chunk_bytes(0);
  const std::span<std::byte> both = scratch.take(2 * longest);
  std::span<const std::byte> outgoing = ring.chunk(in, ring.before(1));
  for (std::size_t s = 0; s + 1 < n; ++s) {
    const std::size_t index = ring.before(s + 2);
    const auto incoming = both.subspan(s % 2 * longest, ring.chunk_bytes(index));
    ring.step(outgoing, incoming);
    const bool last = s + 2 == n;
    reduce(last ? out : incoming, incoming, ring.chunk(in, index), type, op);
    outgoing = incoming;
  }
  if (op == ReduceOp::kAvg) divide_by(out, type, static_cast<int>(n));
}

}  // namespace nqd::collectives
