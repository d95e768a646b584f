#include "collectives/transport.h"

#include "collectives/dispatch.h"

namespace nqd::collectives {

void Transport::begin(Collective collective) {
  if (broken_) std::rethrow_exception(broken_);
  const bool point_to_point = collective == Collective::kSendRecv;
  std::uint64_t& calls = point_to_point ? point_to_point_calls_ : collective_calls_;
  stage_ = {group_, collective, ++calls, 0, true};
  tag_ = point_to_point
             ? kPointToPointTag
             : kFirstCollectiveTag + static_cast<int>(calls % kTaggedCalls) * kTagsPerCall +
                   static_cast<int>(collective);
  do_check();
  do_publish();
  ++counts_[collective].calls;
}

void Transport::end() {
  stage_.active = false;
  do_publish();
}

void Transport::send(std::span<const std::byte> data, int to) {
  ++counts_[stage_.collective].messages;
  send_more(data, to);
}

void Transport::send_more(std::span<const std::byte> data, int to) {
  counts_[stage_.collective].bytes_sent += data.size();
  do_send(data, to, tag_);
}

void Transport::count(const RankTraffic& moved) {
  TrafficCount& count = counts_[stage_.collective];
  count.messages += moved.messages;
  count.bytes_sent += moved.bytes_sent;
}

void Transport::receive(std::span<std::byte> data, int from) { do_receive(data, from, tag_); }

void Transport::wait() {
  do_wait();
  ++stage_.step;
  do_publish();
}

void Transport::follow(const Transport& outer) {
  stage_ = outer.stage_;
  deadline_ = outer.deadline_;
  do_publish();
}

const HostMap& Transport::hosts() const {
  if (!hosts_) {
    std::vector<std::string> names;
    for (int rank = 0; rank < size(); ++rank) names.push_back(host(rank));
    hosts_.emplace(names);
  }
  return *hosts_;
}

void Transport::throw_wrong_length(int from, const std::string& got, std::size_t expected) const {
  throw Error(ExitCode::kFault, "NQD4005",
              "rank " + std::to_string(world_rank(rank())) + " received " + got +
                  " bytes from rank " + std::to_string(world_rank(from)) + " where it expected " +
                  std::to_string(expected) + " in " + describe(stage_),
              "every rank must make the same call with the same count and type");
}

void Transport::library_collective(const CollectiveCall&) {
  throw Error(ExitCode::kUsage, "NQD2102",
              "the " + std::string(backend()) + " backend has no library collectives",
              "use an algorithm of nqd, or run under mpirun for those of the MPI library");
}

void Transport::library_exchange(std::span<const std::byte>, int, std::span<std::byte>, int) {
  library_collective({});
}

Traffic Transport::traffic() const {
  Traffic traffic;
  for (const auto& [collective, count] : counts_) traffic[{group_, collective}] = count;
  return traffic;
}

}  // namespace nqd::collectives
