#include "collectives/algorithms/hierarchical.h"

#include <vector>

#include "collectives/algorithms/copy.h"
#include "collectives/algorithms/direct_parts.h"
#include "collectives/algorithms/pairwise.h"
#include "collectives/algorithms/ring.h"
#include "collectives/host_map.h"
#include "collectives/reduce.h"
#include "collectives/reduce_tree.h"
#include "collectives/subset_transport.h"

namespace nqd::collectives {
namespace {

// One call as one rank sees it.
class TwoLevels {
 public:
  TwoLevels(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
            std::span<std::byte> out, DType type, ReduceOp op)
      : transport_(transport),
        scratch_(scratch),
        hosts_(transport.hosts()),
        in_(in),
        out_(out),
        type_(type),
        op_(op),
        // Averages are sums until they are complete.
        sum_op_(op == ReduceOp::kAvg ? ReduceOp::kSum : op),
        rank_(static_cast<std::size_t>(transport.rank())),
        host_(hosts_.host_of(rank_)),
        place_(hosts_.place_of(rank_)),
        here_(hosts_.members(host_).size()) {}

  void all_reduce();

 private:
  // Bytes of the part of a place; nothing for one that owns none.
  Bytes part(std::size_t place) const {
    const std::size_t parts = hosts_.shared_places();
    return place < parts ? chunk_part(in_.size(), type_, parts, place) : Bytes{};
  }
  int member(std::size_t place) const { return hosts_.members(host_)[place]; }
  std::span<std::byte> out_part(std::size_t place) const {
    return out_.subspan(part(place).begin, part(place).count);
  }

  void all_reduce_in_memory(PeerMemory& peers);
  void reduce_by_messages();
  void gather_by_messages();
  void across();
  RankTraffic moved_inside() const;

  Transport& transport_;
  Scratch& scratch_;
  const HostMap& hosts_;
  const std::span<const std::byte> in_;
  const std::span<std::byte> out_;
  const DType type_;
  const ReduceOp op_;
  const ReduceOp sum_op_;
  const std::size_t rank_;
  const std::size_t host_;
  const std::size_t place_;
  const std::size_t here_;
};

void TwoLevels::all_reduce() {
  if (here_ > 1) {
    if (PeerMemory* const peers = transport_.host_memory()) {
      peers->open({Collective::kAllReduce, type_, op_, 0, in_.size()}, in_, out_);
      // The same answer on every rank of the host.
      if (reachable(*peers)) return all_reduce_in_memory(*peers);
    }
  }
  reduce_by_messages();
  across();
  gather_by_messages();
}

void TwoLevels::all_reduce_in_memory(PeerMemory& peers) {
  const Bytes mine = part(place_);
  std::byte* const target = out_.data() + mine.begin;
  if (mine.count > 0) {
    reduce_part(peers, scratch_, mine, {&target, 1},
                {Collective::kAllReduce, type_, sum_op_, 0, in_.size()});
  }
  across();
  peers.sync();
  for (std::size_t k = 1; k < here_; ++k) {
    // Each rank begins elsewhere, so that they do not all read one peer's memory at a time.
    const std::size_t peer = (place_ + k) % here_;
    peers.read_out(static_cast<int>(peer), part(peer).begin, out_part(peer));
  }
  peers.sync();
  transport_.count(moved_inside());
}

RankTraffic TwoLevels::moved_inside() const {
  RankTraffic moved;
  for (std::size_t peer = 0; peer < here_; ++peer) {
    if (peer == place_) continue;
    for (const std::size_t bytes : {part(peer).count, part(place_).count}) {
      moved.messages += bytes > 0 ? 1 : 0;
      moved.bytes_sent += bytes;
    }
  }
  return moved;
}

void TwoLevels::reduce_by_messages() {
  const Bytes mine = part(place_);
  const std::span<std::byte> rows = scratch_.take(here_ * mine.count);
  std::vector<const std::byte*> sources(here_);
  sources[place_] = in_.data() + mine.begin;
  for (std::size_t s = 1; s < here_; ++s) {
    const std::size_t right = (place_ + s) % here_;
    const std::size_t left = (place_ + here_ - s) % here_;
    const auto row = rows.subspan(left * mine.count, mine.count);
    sources[left] = row.data();
    const Bytes theirs = part(right);
    if (mine.count > 0) transport_.receive(row, member(left));
    if (theirs.count > 0) transport_.send(in_.subspan(theirs.begin, theirs.count), member(right));
    transport_.wait();
  }
  if (mine.count == 0) return;
  std::byte* const target = out_.data() + mine.begin;
  reduce_tree({&target, 1}, sources, mine.count, type_, sum_op_, 0);
}

void TwoLevels::gather_by_messages() {
  for (std::size_t s = 1; s < here_; ++s) {
    const std::size_t right = (place_ + s) % here_;
    const std::size_t left = (place_ + here_ - s) % here_;
    const auto mine = out_part(place_);
    const auto theirs = out_part(left);
    if (!theirs.empty()) transport_.receive(theirs, member(left));
    if (!mine.empty()) transport_.send(mine, member(right));
    transport_.wait();
  }
}

void TwoLevels::across() {
  const auto mine = out_part(place_);
  if (mine.empty()) return;
  const auto divide = [&](std::span<std::byte> complete) {
    if (op_ == ReduceOp::kAvg) divide_by(complete, type_, transport_.size());
  };
  if (hosts_.hosts() == 1) return divide(mine);
  std::vector<int> owners;
  for (std::size_t host = 0; host < hosts_.hosts(); ++host) {
    owners.push_back(hosts_.members(host)[place_]);
  }
  SubsetTransport others(transport_, std::move(owners));
  const Bytes chunk = chunk_part(mine.size(), type_, hosts_.hosts(), host_);
  const auto own = mine.subspan(chunk.begin, chunk.count);
  pairwise_reduce_scatter(others, scratch_, mine, own, type_, sum_op_);
  divide(own);
  ring_all_gather(others, own, mine, type_);
}

}  // namespace

void hierarchical_all_reduce(Transport& transport, Scratch& scratch, std::span<const std::byte> in,
                             std::span<std::byte> out, DType type, ReduceOp op) {
  if (in.empty() || transport.size() == 1) return copy(out, in);
  TwoLevels(transport, scratch, in, out, type, op).all_reduce();
}

}  // namespace nqd::collectives
