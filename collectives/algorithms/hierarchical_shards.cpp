// all_gather and reduce_scatter in two levels: see hierarchical.h.
#include <algorithm>
#include <cstring>
#include <vector>

#include "collectives/algorithms/direct_parts.h"
#include "collectives/algorithms/hierarchical.h"
#include "collectives/host_map.h"
#include "collectives/reduce.h"
#include "collectives/reduce_tree.h"

namespace nqd::collectives {
namespace {

// Some chunks of a vector, which may lie apart, and travel as one message.
class ChunkSet {
 public:
  void add(const Bytes& part) {
    if (part.count == 0) return;
    parts_.push_back(part);
    bytes_ += part.count;
  }
  std::size_t bytes() const { return bytes_; }
  const std::vector<Bytes>& parts() const { return parts_; }

  // In `room` of bytes(), unless they are one in the vector.
  std::span<const std::byte> pack(std::span<const std::byte> vector,
                                  std::span<std::byte> room) const {
    if (parts_.size() == 1) return vector.subspan(parts_[0].begin, parts_[0].count);
    std::size_t at = 0;
    for (const Bytes& part : parts_) {
      std::memcpy(room.data() + at, vector.data() + part.begin, part.count);
      at += part.count;
    }
    return room.first(bytes_);
  }
  void unpack(std::span<const std::byte> packed, std::span<std::byte> vector) const {
    std::size_t at = 0;
    for (const Bytes& part : parts_) {
      std::memcpy(vector.data() + part.begin, packed.data() + at, part.count);
      at += part.count;
    }
  }

 private:
  std::vector<Bytes> parts_;
  std::size_t bytes_ = 0;
};

// One call as one rank sees it, on a full vector of `bytes`.
class Shards {
 public:
  Shards(Transport& transport, Scratch& scratch, std::size_t bytes, DType type)
      : transport_(transport),
        scratch_(scratch),
        hosts_(transport.hosts()),
        bytes_(bytes),
        type_(type),
        rank_(static_cast<std::size_t>(transport.rank())),
        host_(hosts_.host_of(rank_)),
        place_(hosts_.place_of(rank_)),
        here_(hosts_.members(host_).size()),
        owners_(hosts_.shared_places()) {}

  void all_gather(std::span<const std::byte> in, std::span<std::byte> out);
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, ReduceOp op);

 private:
  bool is_owner() const { return place_ < owners_; }
  int member(std::size_t host, std::size_t place) const { return hosts_.members(host)[place]; }
  Bytes chunk(std::size_t host, std::size_t place) const {
    return chunk_part(bytes_, type_, hosts_.ranks(), static_cast<std::size_t>(member(host, place)));
  }
  // The chunks of the ranks of `host` for which the owner of place `owner` works.
  ChunkSet set_of(std::size_t host, std::size_t owner) const {
    ChunkSet set;
    const std::size_t places = hosts_.members(host).size();
    for (std::size_t p = owner; p < places; p += owners_) set.add(chunk(host, p));
    return set;
  }
  // Those on all hosts, without the one of `except` on this host.
  ChunkSet sets_of(std::size_t owner, std::size_t except) const {
    ChunkSet set;
    for (std::size_t host = 0; host < hosts_.hosts(); ++host) {
      for (std::size_t p = owner; p < hosts_.members(host).size(); p += owners_) {
        if (host != host_ || p != except) set.add(chunk(host, p));
      }
    }
    return set;
  }
  ChunkSet all_sets_of(std::size_t owner) const { return sets_of(owner, here_); }

  void send(std::span<const std::byte> data, std::size_t host, std::size_t place) {
    if (!data.empty()) transport_.send(data, member(host, place));
  }
  void receive(std::span<std::byte> data, std::size_t host, std::size_t place) {
    if (!data.empty()) transport_.receive(data, member(host, place));
  }

  // The own chunk is in place; owners get those that they work for.
  void collect_by_messages(std::span<std::byte> vector);
  void gather_across(std::span<std::byte> vector);
  void spread_by_messages(std::span<std::byte> vector);
  void spread_in_memory(PeerMemory& peers, std::span<std::byte> vector);

  // Each leaves the host's sums of all_sets_of(place_) packed in `sums`.
  void reduce_by_messages(std::span<const std::byte> in, std::span<std::byte> sums,
                          std::span<std::byte> room, ReduceOp op);
  void reduce_in_memory(PeerMemory& peers, std::span<std::byte> sums, const DirectCall& call);
  // The whole sums of set_of(host_, place_), packed.
  std::span<std::byte> reduce_across(std::span<const std::byte> sums, std::span<std::byte> room,
                                     ReduceOp op);
  void hand_over(std::span<std::byte> complete, std::span<std::byte> out);

  Transport& transport_;
  Scratch& scratch_;
  const HostMap& hosts_;
  const std::size_t bytes_;
  const DType type_;
  const std::size_t rank_;
  const std::size_t host_;
  const std::size_t place_;
  const std::size_t here_;
  const std::size_t owners_;
};

void Shards::all_gather(std::span<const std::byte> in, std::span<std::byte> out) {
  const Bytes own = chunk(host_, place_);
  copy(out.subspan(own.begin, own.count), in);
  PeerMemory* const peers = here_ > 1 ? transport_.host_memory() : nullptr;
  if (peers != nullptr) {
    peers->open({Collective::kAllGather, type_, ReduceOp::kSum, 0, bytes_}, {}, out);
    if (reachable(*peers)) return spread_in_memory(*peers, out);
  }
  collect_by_messages(out);
  gather_across(out);
  spread_by_messages(out);
}

void Shards::collect_by_messages(std::span<std::byte> vector) {
  const auto at = [&](const Bytes& part) { return vector.subspan(part.begin, part.count); };
  if (!is_owner()) send(at(chunk(host_, place_)), host_, place_ % owners_);
  if (is_owner()) {
    for (std::size_t p = place_ + owners_; p < here_; p += owners_) {
      receive(at(chunk(host_, p)), host_, p);
    }
  }
  transport_.wait();
}

void Shards::gather_across(std::span<std::byte> vector) {
  const std::size_t k = hosts_.hosts();
  if (!is_owner()) return;
  const ChunkSet mine = set_of(host_, place_);
  for (std::size_t s = 1; s < k; ++s) {
    const std::size_t left = (host_ + k - s) % k;
    const ChunkSet theirs = set_of(left, place_);
    const auto room = scratch_.take(mine.bytes() + theirs.bytes());
    const auto packed = room.subspan(mine.bytes());
    receive(packed, left, place_);
    send(mine.pack(vector, room.first(mine.bytes())), (host_ + s) % k, place_);
    transport_.wait();
    theirs.unpack(packed, vector);
  }
}

void Shards::spread_by_messages(std::span<std::byte> vector) {
  for (std::size_t s = 1; s < here_; ++s) {
    const std::size_t right = (place_ + s) % here_;
    const std::size_t left = (place_ + here_ - s) % here_;
    const ChunkSet given = is_owner() ? sets_of(place_, right) : ChunkSet();
    const ChunkSet taken = left < owners_ ? sets_of(left, place_) : ChunkSet();
    const auto room = scratch_.take(given.bytes() + taken.bytes());
    const auto packed = room.subspan(given.bytes());
    receive(packed, host_, left);
    send(given.pack(vector, room.first(given.bytes())), host_, right);
    transport_.wait();
    taken.unpack(packed, vector);
  }
}

void Shards::spread_in_memory(PeerMemory& peers, std::span<std::byte> vector) {
  RankTraffic given;
  const auto count = [&](std::size_t bytes) {
    given.messages += bytes > 0 ? 1 : 0;
    given.bytes_sent += bytes;
  };
  const auto read = [&](std::size_t place, const Bytes& part) {
    peers.read_out(static_cast<int>(place), part.begin, vector.subspan(part.begin, part.count));
  };
  if (!is_owner()) count(chunk(host_, place_).count);
  for (std::size_t p = place_ + owners_; is_owner() && p < here_; p += owners_) {
    read(p, chunk(host_, p));
  }
  gather_across(vector);
  peers.sync();
  for (std::size_t s = 1; s < here_; ++s) {
    const std::size_t peer = (place_ + s) % here_;
    if (is_owner()) count(sets_of(place_, peer).bytes());
    if (peer >= owners_) continue;
    const ChunkSet theirs = sets_of(peer, place_);
    for (const Bytes& part : theirs.parts()) read(peer, part);
  }
  peers.sync();
  transport_.count(given);
}

void Shards::reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, ReduceOp op) {
  const ReduceOp sum_op = op == ReduceOp::kAvg ? ReduceOp::kSum : op;
  const std::size_t sums_bytes = is_owner() ? all_sets_of(place_).bytes() : 0;
  const std::size_t across_bytes = is_owner() ? hosts_.hosts() * set_of(host_, place_).bytes() : 0;
  PeerMemory* const peers = here_ > 1 ? transport_.host_memory() : nullptr;
  if (peers != nullptr) {
    peers->open({Collective::kReduceScatter, type_, op, 0, bytes_}, in, {});
    if (reachable(*peers)) {
      const auto sums = peers->staging(sums_bytes);
      reduce_in_memory(*peers, sums, {Collective::kReduceScatter, type_, sum_op, 0, bytes_});
      const auto complete = reduce_across(sums, scratch_.take(across_bytes), sum_op);
      if (op == ReduceOp::kAvg) divide_by(complete, type_, transport_.size());
      return hand_over(complete, out);
    }
  }
  // A row for each rank of the host, and what leaves in a step: no set is longer than the first.
  const std::size_t inside_bytes = here_ * sums_bytes + all_sets_of(0).bytes();
  const auto room = scratch_.take(sums_bytes + std::max(inside_bytes, across_bytes));
  const auto sums = room.first(sums_bytes);
  const auto rest = room.subspan(sums_bytes);
  reduce_by_messages(in, sums, rest, sum_op);
  const auto complete = reduce_across(sums, rest, sum_op);
  if (op == ReduceOp::kAvg) divide_by(complete, type_, transport_.size());
  hand_over(complete, out);
}

void Shards::reduce_in_memory(PeerMemory& peers, std::span<std::byte> sums,
                              const DirectCall& call) {
  RankTraffic given;
  for (std::size_t owner = 0; owner < owners_; ++owner) {
    const std::size_t bytes = owner == place_ ? 0 : all_sets_of(owner).bytes();
    given.messages += bytes > 0 ? 1 : 0;
    given.bytes_sent += bytes;
  }
  std::size_t at = 0;
  if (is_owner()) {
    const ChunkSet mine = all_sets_of(place_);
    for (const Bytes& part : mine.parts()) {
      std::byte* const target = sums.data() + at;
      reduce_part(peers, scratch_, part, {&target, 1}, call);
      at += part.count;
    }
  }
  peers.sync();
  transport_.count(given);
}

void Shards::reduce_by_messages(std::span<const std::byte> in, std::span<std::byte> sums,
                                std::span<std::byte> room, ReduceOp op) {
  const ChunkSet mine = is_owner() ? all_sets_of(place_) : ChunkSet();
  const auto row = [&](std::size_t place) {
    return room.subspan(place * mine.bytes(), mine.bytes());
  };
  const auto outgoing = room.subspan(here_ * mine.bytes());
  for (std::size_t s = 1; s < here_; ++s) {
    const std::size_t right = (place_ + s) % here_;
    const std::size_t left = (place_ + here_ - s) % here_;
    const ChunkSet theirs = right < owners_ ? all_sets_of(right) : ChunkSet();
    receive(row(left), host_, left);
    send(theirs.pack(in, outgoing.first(theirs.bytes())), host_, right);
    transport_.wait();
  }
  if (mine.bytes() == 0) return;
  std::vector<const std::byte*> sources;
  for (std::size_t p = 0; p < here_; ++p) {
    sources.push_back(p == place_ ? mine.pack(in, row(p)).data() : row(p).data());
  }
  std::byte* const target = sums.data();
  reduce_tree({&target, 1}, sources, mine.bytes(), type_, op, 0);
}

std::span<std::byte> Shards::reduce_across(std::span<const std::byte> sums,
                                           std::span<std::byte> room, ReduceOp op) {
  if (!is_owner()) return {};
  const std::size_t k = hosts_.hosts();
  const std::size_t own = set_of(host_, place_).bytes();
  std::vector<std::span<const std::byte>> parts;
  std::size_t begin = 0;
  for (std::size_t h = 0; h < k; ++h) {
    parts.push_back(sums.subspan(begin, set_of(h, place_).bytes()));
    begin += parts.back().size();
  }
  std::vector<const std::byte*> sources;
  for (std::size_t h = 0; h < k; ++h) {
    const std::size_t s = (host_ + k - h) % k;
    sources.push_back(h == host_ ? parts[h].data() : room.data() + s * own);
  }
  for (std::size_t s = 1; s < k; ++s) {
    const std::size_t left = (host_ + k - s) % k;
    receive(room.subspan(s * own, own), left, place_);
    send(parts[(host_ + s) % k], (host_ + s) % k, place_);
    transport_.wait();
  }
  std::byte* const target = room.data();
  if (own > 0) reduce_tree({&target, 1}, sources, own, type_, op, 0);
  return room.first(own);
}

void Shards::hand_over(std::span<std::byte> complete, std::span<std::byte> out) {
  if (!is_owner()) {
    receive(out, host_, place_ % owners_);
    return transport_.wait();
  }
  std::size_t at = 0;
  for (std::size_t p = place_; p < here_; p += owners_) {
    const auto theirs = complete.subspan(at, chunk(host_, p).count);
    at += theirs.size();
    if (p == place_) {
      copy(out, theirs);
    } else {
      send(theirs, host_, p);
    }
  }
  transport_.wait();
}

}  // namespace

void hierarchical_all_gather(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                             std::span<std::byte> out, DType type) {
  if (transport.size() == 1) return copy(out, in);
  Shards(transport, scratch, out.size(), type).all_gather(in, out);
}

void hierarchical_reduce_scatter(Transport& transport, Scratch& scratch,
                                 std::span<const std::byte> in, std::span<std::byte> out,
                                 DType type, ReduceOp op) {
  if (transport.size() == 1) return copy(out, in);
  Shards(transport, scratch, in.size(), type).reduce_scatter(in, out, op);
}

}  // namespace nqd::collectives
