// The direct collectives that move parts without adding them, and reduce.
#include <string>

#include "base/error.h"
#include "collectives/algorithms/direct.h"
#include "collectives/algorithms/direct_parts.h"

namespace nqd::collectives {
namespace {

[[noreturn]] void throw_wrong_part(Collective collective, int rank, std::size_t got,
                                   std::size_t expected) {
  throw Error(ExitCode::kFault, "NQD4005",
              std::string(name(collective)) + ": rank " + std::to_string(rank) +
                  " of the group shows " + std::to_string(got) + " bytes where " +
                  std::to_string(expected) + " are expected",
              "every rank must make the same call with the same count and type");
}

}  // namespace

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
    if (peers.in_bytes(peer) != part.count) {
      throw_wrong_part(Collective::kGather, peer, peers.in_bytes(peer), part.count);
    }
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
  if (out.size() != part.count) {
    throw_wrong_part(Collective::kScatter, peers.rank(), out.size(), part.count);
  }
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

}  // namespace nqd::collectives
