#include "collectives/host_map.h"

#include <algorithm>

#include "collectives/communicator.h"
#include "collectives/cost_traffic.h"

namespace nqd::collectives {

HostMap::HostMap(const std::vector<std::string>& host_of_rank) {
  std::vector<std::string> names;
  for (const std::string& name : host_of_rank) {
    const auto found = std::find(names.begin(), names.end(), name);
    const auto host = static_cast<std::size_t>(found - names.begin());
    if (found == names.end()) {
      names.push_back(name);
      members_.emplace_back();
    }
    place_of_.push_back(members_[host].size());
    members_[host].push_back(static_cast<int>(host_of_.size()));
    host_of_.push_back(host);
  }
  shared_places_ = ranks();
  for (const std::vector<int>& members : members_) {
    shared_places_ = std::min(shared_places_, members.size());
  }
}

HostMap host_map_of(const Communicator& communicator) {
  std::vector<std::string> hosts;
  for (int rank = 0; rank < communicator.size(); ++rank) hosts.push_back(communicator.host(rank));
  return HostMap(hosts);
}

namespace {

// The chunks of all ranks, in the sets of owners (algorithms/hierarchical.h), as one rank sees
// them.
class Sets {
 public:
  Sets(const HostMap& hosts, std::size_t rank, std::size_t count, std::size_t element_bytes)
      : hosts_(hosts),
        count_(count),
        element_bytes_(element_bytes),
        host_(hosts.host_of(rank)),
        place_(hosts.place_of(rank)),
        here_(hosts.members(host_).size()),
        owners_(hosts.shared_places()) {}

  RankTraffic all_gather() const {
    RankTraffic sent;
    if (!is_owner()) {
      note(sent, chunk(host_, place_));
      return sent;
    }
    for (std::size_t h = 0; h < hosts_.hosts(); ++h) {
      if (h != host_) note(sent, set(host_, place_));
    }
    for (std::size_t peer = 0; peer < here_; ++peer) {
      if (peer == place_) continue;
      const bool works_for = peer % owners_ == place_;
      note(sent, all_sets(place_) - (works_for ? chunk(host_, peer) : 0));
    }
    return sent;
  }

  RankTraffic reduce_scatter() const {
    RankTraffic sent;
    for (std::size_t owner = 0; owner < owners_ && here_ > 1; ++owner) {
      if (owner != place_) note(sent, all_sets(owner));
    }
    if (!is_owner()) return sent;
    for (std::size_t h = 0; h < hosts_.hosts(); ++h) {
      if (h != host_) note(sent, set(h, place_));
    }
    for (std::size_t p = place_ + owners_; p < here_; p += owners_) note(sent, chunk(host_, p));
    return sent;
  }

 private:
  bool is_owner() const { return place_ < owners_; }
  std::size_t chunk(std::size_t host, std::size_t place) const {
    const auto rank = static_cast<std::size_t>(hosts_.members(host)[place]);
    return chunk_of(count_, hosts_.ranks(), rank).count;
  }
  std::size_t set(std::size_t host, std::size_t owner) const {
    std::size_t elements = 0;
    for (std::size_t p = owner; p < hosts_.members(host).size(); p += owners_) {
      elements += chunk(host, p);
    }
    return elements;
  }
  std::size_t all_sets(std::size_t owner) const {
    std::size_t elements = 0;
    for (std::size_t h = 0; h < hosts_.hosts(); ++h) elements += set(h, owner);
    return elements;
  }
  void note(RankTraffic& sent, std::size_t elements) const {
    sent.messages += elements > 0 ? 1 : 0;
    sent.bytes_sent += elements * element_bytes_;
  }

  const HostMap& hosts_;
  const std::size_t count_;
  const std::size_t element_bytes_;
  const std::size_t host_;
  const std::size_t place_;
  const std::size_t here_;
  const std::size_t owners_;
};

}  // namespace

RankTraffic rank_traffic(const HostMap& hosts, Collective collective, Algorithm algorithm,
                         std::size_t rank, std::size_t count, std::size_t element_bytes) {
  if (algorithm != Algorithm::kHierarchical) {
    return rank_traffic(collective, algorithm, hosts.ranks(), rank, count, element_bytes);
  }
  const std::size_t host = hosts.host_of(rank);
  const Sets sets(hosts, rank, count, element_bytes);
  if (collective == Collective::kAllGather) return sets.all_gather();
  if (collective == Collective::kReduceScatter) return sets.reduce_scatter();
  const TrafficCall call{hosts.ranks(), rank, count, element_bytes, hosts.shared_places()};
  return two_level_all_reduce_traffic(
      call, {hosts.place_of(rank), hosts.members(host).size(), host, hosts.hosts()});
}

RankTraffic max_traffic(const HostMap& hosts, Collective collective, Algorithm algorithm,
                        std::size_t count, std::size_t element_bytes) {
  RankTraffic most;
  for (std::size_t rank = 0; rank < hosts.ranks(); ++rank) {
    const RankTraffic one = rank_traffic(hosts, collective, algorithm, rank, count, element_bytes);
    most.messages = std::max(most.messages, one.messages);
    most.bytes_sent = std::max(most.bytes_sent, one.bytes_sent);
  }
  return most;
}

}  // namespace nqd::collectives
