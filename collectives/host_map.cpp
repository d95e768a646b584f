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

RankTraffic rank_traffic(const HostMap& hosts, Collective collective, Algorithm algorithm,
                         std::size_t rank, std::size_t count, std::size_t element_bytes) {
  if (collective != Collective::kAllReduce || algorithm != Algorithm::kHierarchical) {
    return rank_traffic(collective, algorithm, hosts.ranks(), rank, count, element_bytes);
  }
  const std::size_t host = hosts.host_of(rank);
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
