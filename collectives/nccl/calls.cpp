#include "collectives/nccl/calls.h"

#include <numeric>

#include "collectives/dispatch.h"

namespace nqd::collectives {
namespace {

std::size_t index(int rank) { return static_cast<std::size_t>(rank); }

// One call on its way to NCCL.
class Call {
 public:
  Call(NcclSession& session, const CollectiveCall& call, DeviceStream stream, const Stage& stage)
      : session_(session),
        nccl_(session.nccl()),
        call_(call),
        stream_(stream),
        stage_(stage),
        n_(index(session.size())),
        rank_(index(session.rank())),
        element_(size_bytes(call.type)) {}

  void put();

 private:
  // Inside a group a failure waits for its end: an open group takes no abort.
  void check(NcclResult result) {
    if (!grouped_) return session_.check(result, stage_);
    const bool fine = result == NcclResult::kSuccess || result == NcclResult::kInProgress;
    if (!fine && failed_ == NcclResult::kSuccess) failed_ = result;
  }
  // Runs `calls` between group_start and group_end.
  template <typename Calls>
  void group(const Calls& calls);
  void copy(std::byte* to, const std::byte* from, std::size_t elements);
  void send(std::size_t to, std::size_t first, std::size_t elements);
  void receive(std::size_t from, std::size_t first, std::size_t elements);
  void barrier();
  void all_gather();
  void reduce_scatter();
  void gather();
  void scatter();
  void all_to_all();
  void all_to_all_v();

  NcclSession& session_;
  NcclApi& nccl_;
  const CollectiveCall& call_;
  const DeviceStream stream_;
  const Stage& stage_;
  const std::size_t n_;
  const std::size_t rank_;
  const std::size_t element_;
  bool grouped_ = false;
  NcclResult failed_ = NcclResult::kSuccess;
};

template <typename Calls>
void Call::group(const Calls& calls) {
  check(nccl_.group_start());
  grouped_ = true;
  calls();
  check(nccl_.group_end());
  grouped_ = false;
  check(failed_);
}

void Call::copy(std::byte* to, const std::byte* from, std::size_t elements) {
  if (to != from && elements > 0) session_.device().copy(to, from, elements * element_, stream_);
}

void Call::send(std::size_t to, std::size_t first, std::size_t elements) {
  if (elements == 0) return;
  check(nccl_.send(call_.in.data() + first * element_, elements, call_.type, static_cast<int>(to),
                   session_.handle(), stream_));
}

void Call::receive(std::size_t from, std::size_t first, std::size_t elements) {
  if (elements == 0) return;
  check(nccl_.receive(call_.out.data() + first * element_, elements, call_.type,
                      static_cast<int>(from), session_.handle(), stream_));
}

// A sum of one element, which nobody has before all have given theirs.
void Call::barrier() {
  std::byte* const one = session_.small(sizeof(std::int32_t)).data();
  check(nccl_.all_reduce(one, one, 1, DType::kInt32, ReduceOp::kMax, session_.handle(), stream_));
}

void Call::all_gather() {
  const std::size_t total = call_.out.size() / element_;
  if (total % n_ == 0) {
    return check(nccl_.all_gather(call_.in.data(), call_.out.data(), total / n_, call_.type,
                                  session_.handle(), stream_));
  }
  group([&] {
    for (std::size_t root = 0; root < n_; ++root) {
      const Chunk part = chunk_of(total, n_, root);
      if (part.count == 0) continue;
      std::byte* const out = call_.out.data() + part.begin * element_;
      check(nccl_.broadcast(root == rank_ ? call_.in.data() : out, out, part.count, call_.type,
                            static_cast<int>(root), session_.handle(), stream_));
    }
  });
}

void Call::reduce_scatter() {
  const std::size_t total = call_.in.size() / element_;
  if (total % n_ == 0) {
    return check(nccl_.reduce_scatter(call_.in.data(), call_.out.data(), total / n_, call_.type,
                                      call_.op, session_.handle(), stream_));
  }
  group([&] {
    for (std::size_t root = 0; root < n_; ++root) {
      const Chunk part = chunk_of(total, n_, root);
      if (part.count == 0) continue;
      check(nccl_.reduce(call_.in.data() + part.begin * element_,
                         root == rank_ ? call_.out.data() : nullptr, part.count, call_.type,
                         call_.op, static_cast<int>(root), session_.handle(), stream_));
    }
  });
}

void Call::gather() {
  if (rank_ != index(call_.root)) {
    return group([&] { send(index(call_.root), 0, call_.in.size() / element_); });
  }
  const std::size_t total = call_.out.size() / element_;
  const Chunk own = chunk_of(total, n_, rank_);
  copy(call_.out.data() + own.begin * element_, call_.in.data(), own.count);
  group([&] {
    for (std::size_t from = 0; from < n_; ++from) {
      const Chunk part = chunk_of(total, n_, from);
      if (from != rank_) receive(from, part.begin, part.count);
    }
  });
}

void Call::scatter() {
  if (rank_ != index(call_.root)) {
    return group([&] { receive(index(call_.root), 0, call_.out.size() / element_); });
  }
  const std::size_t total = call_.in.size() / element_;
  const Chunk own = chunk_of(total, n_, rank_);
  copy(call_.out.data(), call_.in.data() + own.begin * element_, own.count);
  group([&] {
    for (std::size_t to = 0; to < n_; ++to) {
      const Chunk part = chunk_of(total, n_, to);
      if (to != rank_) send(to, part.begin, part.count);
    }
  });
}

void Call::all_to_all() {
  const std::size_t total = call_.in.size() / element_;
  const Chunk own = chunk_of(total, n_, rank_);
  copy(call_.out.data() + rank_ * own.count * element_, call_.in.data() + own.begin * element_,
       own.count);
  group([&] {
    for (std::size_t peer = 0; peer < n_; ++peer) {
      if (peer == rank_) continue;
      const Chunk part = chunk_of(total, n_, peer);
      send(peer, part.begin, part.count);
      receive(peer, peer * own.count, own.count);
    }
  });
}

void Call::all_to_all_v() {
  const auto before = [&](std::span<const std::size_t> counts, std::size_t peer) {
    return std::accumulate(counts.begin(), counts.begin() + static_cast<std::ptrdiff_t>(peer),
                           std::size_t{0});
  };
  copy(call_.out.data() + before(call_.out_counts, rank_) * element_,
       call_.in.data() + before(call_.in_counts, rank_) * element_, call_.in_counts[rank_]);
  group([&] {
    for (std::size_t peer = 0; peer < n_; ++peer) {
      if (peer == rank_) continue;
      send(peer, before(call_.in_counts, peer), call_.in_counts[peer]);
      receive(peer, before(call_.out_counts, peer), call_.out_counts[peer]);
    }
  });
}

void Call::put() {
  switch (call_.collective) {
    case Collective::kBarrier:
    case Collective::kSendRecv:
      return barrier();
    case Collective::kGather:
      return gather();
    case Collective::kScatter:
      return scatter();
    case Collective::kAllToAll:
      return call_.has_counts() ? all_to_all_v() : all_to_all();
    default:
      break;
  }
  const bool all_gathers = call_.collective == Collective::kAllGather;
  const bool broadcasts = call_.collective == Collective::kBroadcast;
  // A rank's own part may be empty where the vector is not.
  if ((all_gathers || broadcasts ? call_.out.size() : call_.in.size()) == 0) return;
  if (all_gathers) return all_gather();
  if (call_.collective == Collective::kReduceScatter) return reduce_scatter();
  if (broadcasts) {
    return check(nccl_.broadcast(call_.out.data(), call_.out.data(), call_.out.size(),
                                 DType::kUInt8, call_.root, session_.handle(), stream_));
  }
  const std::size_t count = call_.in.size() / element_;
  if (call_.collective == Collective::kReduce) {
    return check(nccl_.reduce(call_.in.data(), call_.out.data(), count, call_.type, call_.op,
                              call_.root, session_.handle(), stream_));
  }
  check(nccl_.all_reduce(call_.in.data(), call_.out.data(), count, call_.type, call_.op,
                         session_.handle(), stream_));
}

RankTraffic counted_parts(const CollectiveCall& call, std::size_t ranks, std::size_t rank) {
  const std::size_t elements =
      std::accumulate(call.in_counts.begin(), call.in_counts.end(), std::size_t{0});
  return {ranks - 1, (elements - call.in_counts[rank]) * size_bytes(call.type)};
}

RankTraffic scattered(const CollectiveCall& call, std::size_t ranks, std::size_t rank) {
  const std::size_t element = size_bytes(call.type);
  RankTraffic sent;
  for (std::size_t to = 0; to < ranks; ++to) {
    const std::size_t count = chunk_of(call.in.size() / element, ranks, to).count;
    if (to == rank || count == 0) continue;
    ++sent.messages;
    sent.bytes_sent += count * element;
  }
  return sent;
}

}  // namespace

void put_call(NcclSession& session, const CollectiveCall& call, DeviceStream stream,
              const Stage& stage) {
  Call(session, call, stream, stage).put();
}

void put_exchange(NcclSession& session, std::span<const std::byte> data, int to,
                  std::span<std::byte> received, int from, DeviceStream stream,
                  const Stage& stage) {
  NcclApi& nccl = session.nccl();
  const NcclHandle comm = session.handle();
  session.check(nccl.group_start(), stage);
  // Not looked at before the group is closed: it must be, whatever they say.
  NcclResult sending = NcclResult::kSuccess;
  NcclResult receiving = NcclResult::kSuccess;
  if (to >= 0 && !data.empty()) {
    sending = nccl.send(data.data(), data.size(), DType::kUInt8, to, comm, stream);
  }
  if (from >= 0 && !received.empty()) {
    receiving = nccl.receive(received.data(), received.size(), DType::kUInt8, from, comm, stream);
  }
  const NcclResult closed = nccl.group_end();
  session.check(sending, stage);
  session.check(receiving, stage);
  session.check(closed, stage);
}

RankTraffic planned_traffic(const CollectiveCall& call, std::size_t ranks, std::size_t rank,
                            Algorithm algorithm) {
  const std::size_t root = index(call.root);
  switch (call.collective) {
    case Collective::kBarrier:
    case Collective::kSendRecv:
      return {};
    case Collective::kGather:
      if (rank == root || call.in.empty()) return {};
      return {1, call.in.size()};
    case Collective::kScatter:
      return rank == root ? scattered(call, ranks, rank) : RankTraffic{};
    case Collective::kAllToAll:
      if (call.has_counts()) return counted_parts(call, ranks, rank);
      break;
    default:
      break;
  }
  // Trees to and from another root are those of rank 0, turned.
  const bool rooted =
      call.collective == Collective::kBroadcast || call.collective == Collective::kReduce;
  const std::size_t place = rooted ? (rank + ranks - root) % ranks : rank;
  const std::size_t element = size_bytes(call.type);
  if (algorithm == Algorithm::kLibrary) algorithm = Algorithm::kAuto;
  return rank_traffic(call.collective, algorithm, ranks, place,
                      payload_bytes(call).value_or(0) / element, element);
}

}  // namespace nqd::collectives
