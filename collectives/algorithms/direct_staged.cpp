// The direct all_reduce of vectors that some rank keeps in private memory.
#include <algorithm>
#include <vector>

#include "collectives/algorithms/direct_parts.h"
#include "collectives/reduce_tree.h"
#include "collectives/stream.h"

namespace nqd::collectives {
namespace {

// What a rank shows of its vector at a time, in all its slots of one turn together. With 2 ranks on
// 2 cores of one cache, private float32, 4 MiB: 512 KiB to 2 MiB here take 0.29 to 0.41 ms, 128 KiB
// 0.76 ms, since a line is slow to read while it is dirty in the writer's own cache.
constexpr std::size_t kStageBytes = std::size_t{1} << 20;

std::size_t block_bytes(std::size_t n) {
  return std::max(kStageBytes / n / kCacheLine, std::size_t{1}) * kCacheLine;
}

std::size_t blocks(std::size_t bytes, DType type, std::size_t n) {
  const std::size_t longest = line_part(bytes, type, n, 0).count;
  return (longest + block_bytes(n) - 1) / block_bytes(n);
}

// Block k of every part passes through slots of turn k % 2: rank i has one for what it gives every
// other, and number i for its result.
class Staged {
 public:
  Staged(PeerMemory& peers, std::span<const std::byte> in, std::span<std::byte> out,
         const DirectCall& call, bool past_caches)
      : peers_(peers),
        in_(in),
        out_(out),
        call_(call),
        n_(size_of(peers)),
        block_(block_bytes(n_)),
        past_caches_(past_caches),
        slots_past_caches_(peers.far_caches()),
        own_(peers.staging(2 * n_ * block_)) {}

  std::span<const std::byte> slots() const { return own_; }

  void give(std::size_t k) {
    for_each_peer([&](std::size_t peer) {
      const Bytes block = block_of(peer, k);
      std::byte* const to = own_.data() + slot(peer, k);
      move(to, in_.data() + block.begin, block.count, slots_past_caches_);
    });
  }

  void reduce(std::size_t k) {
    const std::size_t me = rank_of(peers_);
    const Bytes block = block_of(me, k);
    std::vector<const std::byte*> sources;
    for (int rank = 0; rank < peers_.size(); ++rank) {
      sources.push_back(peers_.in(rank) + slot(me, k));
    }
    sources[me] = in_.data() + block.begin;
    std::byte* const outs[] = {out_.data() + block.begin, own_.data() + slot(me, k)};
    const std::size_t streamed = slots_past_caches_ ? 2 : past_caches_ ? 1 : 0;
    reduce_tree(outs, sources, block.count, call_.type, call_.op, streamed);
  }

  void take(std::size_t k) {
    for_each_peer([&](std::size_t peer) {
      const Bytes block = block_of(peer, k);
      const std::byte* const from = peers_.in(static_cast<int>(peer)) + slot(peer, k);
      move(out_.data() + block.begin, from, block.count, past_caches_);
    });
  }

 private:
  // Each rank begins elsewhere, so that they do not all read one peer's memory at a time.
  template <typename Act>
  void for_each_peer(const Act& act) const {
    for (std::size_t step = 1; step < n_; ++step) act((rank_of(peers_) + step) % n_);
  }
  static void move(std::byte* to, const std::byte* from, std::size_t bytes, bool past_caches) {
    if (past_caches) {
      stream_copy(to, from, bytes);
    } else {
      copy({to, bytes}, {from, bytes});
    }
  }
  Bytes block_of(std::size_t rank, std::size_t k) const {
    const Bytes part = line_part(in_.size(), call_.type, n_, rank);
    const std::size_t done = std::min(k * block_, part.count);
    return {part.begin + done, std::min(block_, part.count - done)};
  }
  std::size_t slot(std::size_t which, std::size_t k) const { return (k % 2 * n_ + which) * block_; }

  PeerMemory& peers_;
  const std::span<const std::byte> in_;
  const std::span<std::byte> out_;
  const DirectCall& call_;
  const std::size_t n_;
  const std::size_t block_;
  const bool past_caches_;
  const bool slots_past_caches_;
  const std::span<std::byte> own_;
};

}  // namespace

void staged_all_reduce(PeerMemory& peers, std::span<const std::byte> in, std::span<std::byte> out,
                       const DirectCall& call, bool past_caches) {
  Staged staged(peers, in, out, call, past_caches);
  const std::size_t count = blocks(in.size(), call.type, size_of(peers));
  // In step s a rank gives block s, reduces block s - 1 and takes block s - 2. Nobody writes to a
  // slot that another may still read: what it held was read a step ago, or before the next call
  // was opened.
  for (std::size_t s = 0; s < count + 2; ++s) {
    if (s < count) staged.give(s);
    if (s >= 1 && s - 1 < count) staged.reduce(s - 1);
    if (s >= 2) staged.take(s - 2);
    stream_fence();
    if (s == 0) {
      peers.open(call, staged.slots(), {});
    } else if (s + 1 < count + 2) {
      peers.sync();
    }
  }
}

}  // namespace nqd::collectives
