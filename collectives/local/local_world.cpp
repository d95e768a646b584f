#include "collectives/local/local_world.h"

#include <utility>

#include "base/host.h"
#include "collectives/shared/peer_memory.h"

namespace nqd::collectives::local {

LocalGroup::LocalGroup(std::shared_ptr<LocalWorld> the_world, std::vector<int> ranks)
    : world(std::move(the_world)),
      world_ranks(std::move(ranks)),
      control(Segment::create(PeerMemory::control_bytes(static_cast<int>(world_ranks.size())))),
      boxes(world_ranks.size() * world_ranks.size()),
      changed(world_ranks.size()) {
  // Threads need no way to find it.
  control->close_descriptor();
}

LocalGroup::~LocalGroup() {
  const std::lock_guard lock(world->mutex);
  std::erase(world->groups_, this);
}

LocalWorld::LocalWorld(int ranks, std::vector<std::string> hosts)
    : hosts_(std::move(hosts)), ranks_(index(ranks)) {
  if (hosts_.empty()) hosts_.assign(index(ranks), read_host_info().hostname);
}

void LocalWorld::fail(Fault fault) {
  if (fault_) return;
  stop_time_ = std::chrono::steady_clock::now();
  if (fault.kind == Fault::Kind::kPeerFailed) *stop_time_ += kSettle;
  fault_ = std::move(fault);
  wake_all();
}

void LocalWorld::end(int world_rank) {
  ranks_[index(world_rank)].ended = true;
  wake_all();
}

PeerStatus LocalWorld::status(int world_rank) const {
  const RankState& rank = ranks_[index(world_rank)];
  return {world_rank, host(world_rank), rank.stage, true, 0, rank.ended};
}

std::shared_ptr<LocalGroup> LocalWorld::make_group(const std::vector<int>& world_ranks) {
  auto group = std::make_shared<LocalGroup>(shared_from_this(), world_ranks);
  groups_.push_back(group.get());
  return group;
}

std::shared_ptr<LocalGroup> LocalWorld::join(const LocalGroup* parent, int call,
                                             const std::vector<int>& world_ranks) {
  const auto key = std::tuple(parent, call, world_ranks);
  Forming& forming = forming_[key];
  std::shared_ptr<LocalGroup> group = forming.group.lock();
  if (!group) {
    group = make_group(world_ranks);
    forming.group = group;
  }
  if (++forming.joined == world_ranks.size()) forming_.erase(key);
  return group;
}

void LocalWorld::wake_all() {
  for (LocalGroup* group : groups_) {
    for (std::condition_variable& rank : group->changed) rank.notify_all();
  }
}

}  // namespace nqd::collectives::local
