// The direct collectives that move parts without adding them, and reduce.
#include <cstring>
#include <vector>

#include "collectives/algorithms/direct.h"
#include "collectives/algorithms/direct_parts.h"

namespace nqd::collectives {
std::optional<RankTraffic> direct_reduce(PeerMemory& peers, Scratch& scratch,
                                         std::span<const std::byte> in, std::span<std::byte> out,
                                         DType type, ReduceOp op, int root) {
  const DirectCall call{Collective::kReduce, type, op, root, in.size()};
  const bool is_root = peers.rank() == root;
  const std::size_t n = size_of(peers);
  const Bytes mine = line_part(in.size(), type, n, rank_of(peers));
  if (n == 1) {
    copy(out, in);
    return RankTraffic{};
  }
  peers.open(call, in, is_root ? out : peers.staging(mine.count));
  if (!reachable(peers)) return std::nullopt;
  const bool into_root = is_root || peers.all_open();
  std::byte* const target = into_root ? peers.out(root) + mine.begin : peers.out(peers.rank());
  reduce_part(peers, scratch, mine, {&target, 1}, call);
  peers.sync();
  for (int peer = 0; is_root && !peers.all_open() && peer < peers.size(); ++peer) {
    if (peer == root) continue;
    const Bytes part = line_part(in.size(), type, n, static_cast<std::size_t>(peer));
    peers.read_out(peer, 0, out.subspan(part.begin, part.count));
  }
  if (!peers.all_open()) peers.sync();
  const std::uint64_t accesses = n - 1 + (is_root ? 0 : 1);
  return RankTraffic{accesses, accesses * mine.count};
}

std::optional<RankTraffic> direct_gather(PeerMemory& peers, std::span<const std::byte> in,
                                         std::span<std::byte> out, DType type, int root) {
  const DirectCall call{Collective::kGather, type, ReduceOp::kSum, root, 0};
  const bool is_root = peers.rank() == root;
  peers.open(call, in, {});
  if (!reachable(peers)) return std::nullopt;
  RankTraffic moved;
  for (int peer = 0; is_root && peer < peers.size(); ++peer) {
    const Bytes part = chunk_part(out.size(), type, size_of(peers), static_cast<std::size_t>(peer));
    check_part(Collective::kGather, peer, peers.in_bytes(peer), part.count);
    if (peer == root) {
      copy(out.subspan(part.begin, part.count), in);
      continue;
    }
    peers.read_in(peer, 0, out.subspan(part.begin, part.count));
    moved = {moved.messages + 1, moved.bytes_sent + part.count};
  }
  peers.sync();
  return moved;
}

std::optional<RankTraffic> direct_scatter(PeerMemory& peers, std::span<const std::byte> in,
                                          std::span<std::byte> out, DType type, int root) {
  const DirectCall call{Collective::kScatter, type, ReduceOp::kSum, root, 0};
  const bool is_root = peers.rank() == root;
  peers.open(call, is_root ? in : std::span<const std::byte>{}, {});
  if (!reachable(peers)) return std::nullopt;
  const Bytes part = chunk_part(peers.in_bytes(root), type, size_of(peers), rank_of(peers));
  check_part(Collective::kScatter, peers.rank(), part.count, out.size());
  if (is_root) {
    copy(out, in.subspan(part.begin, part.count));
  } else {
    peers.read_in(root, part.begin, out);
  }
  peers.sync();
  return is_root ? RankTraffic{} : RankTraffic{1, part.count};
}

std::optional<RankTraffic> direct_all_to_all(PeerMemory& peers, std::span<const std::byte> in,
                                             std::span<std::byte> out, DType type) {
  const DirectCall call{Collective::kAllToAll, type, ReduceOp::kSum, 0, in.size()};
  const std::size_t n = size_of(peers);
  const Bytes part = chunk_part(in.size(), type, n, rank_of(peers));
  peers.open(call, in, {});
  if (!reachable(peers)) return std::nullopt;
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t peer = (rank_of(peers) + k) % n;
    const auto to = out.subspan(peer * part.count, part.count);
    if (k == 0) {
      copy(to, in.subspan(part.begin, part.count));
    } else {
      peers.read_in(static_cast<int>(peer), part.begin, to);
    }
  }
  peers.sync();
  return RankTraffic{n - 1, (n - 1) * part.count};
}

std::optional<RankTraffic> direct_all_to_all_v(PeerMemory& peers, const CollectiveCall& call) {
  const std::size_t n = size_of(peers);
  const DirectCall shown{Collective::kAllToAll, call.type, ReduceOp::kSum, 0, 0};
  peers.exchange_small(shown, std::as_bytes(call.in_counts));
  // Before the next call on these slots: what every rank gives this one, and where it lies.
  std::vector<Bytes> given(n);
  for (std::size_t peer = 0; peer < n; ++peer) {
    std::vector<std::size_t> counts(n);
    std::memcpy(counts.data(), peers.small(static_cast<int>(peer)).data(), n * sizeof counts[0]);
    given[peer] = parts_in_bytes(counts, call.type)[rank_of(peers)];
  }
  peers.close_small();
  peers.open(shown, call.in, {});
  if (!reachable(peers)) return std::nullopt;
  const std::vector<Bytes> taken = parts_in_bytes(call.out_counts, call.type);
  RankTraffic moved{n - 1, 0};
  for (std::size_t k = 0; k < n; ++k) {
    const std::size_t peer = (rank_of(peers) + k) % n;
    check_part(Collective::kAllToAll, static_cast<int>(peer), given[peer].count, taken[peer].count);
    const auto to = call.out.subspan(taken[peer].begin, taken[peer].count);
    if (k == 0) {
      copy(to, call.in.subspan(given[peer].begin, given[peer].count));
    } else {
      peers.read_in(static_cast<int>(peer), given[peer].begin, to);
      moved.bytes_sent += to.size();
    }
  }
  peers.sync();
  return moved;
}

}  // namespace nqd::collectives
