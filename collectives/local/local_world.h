// What the threads of one local world share: mailboxes, the stage of every rank, and the first
// fault. One mutex guards it all; payloads are copied outside it.
#pragma once

#include <chrono>
#include <condition_variable>
#include <cstddef>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <span>
#include <string>
#include <tuple>
#include <vector>

#include "collectives/shared/segment.h"
#include "collectives/stage.h"

namespace nqd::collectives::local {

class LocalWorld;

// A posted send. The receiver copies straight from the sender's buffer, so a send completes when
// its message has been received. Owned by the sender; guarded by LocalWorld::mutex.
struct Message {
  enum class State { kPosted, kCopying, kDone };
  std::span<const std::byte> data;
  int to = 0;
  int tag = 0;
  State state = State::kPosted;
};

// The mailboxes of one group of ranks.
struct LocalGroup {
  LocalGroup(std::shared_ptr<LocalWorld> world, std::vector<int> world_ranks);
  ~LocalGroup();

  std::deque<Message*>& box(int from, int to) {
    return boxes[static_cast<std::size_t>(to) * world_ranks.size() +
                 static_cast<std::size_t>(from)];
  }

  const std::shared_ptr<LocalWorld> world;
  const std::vector<int> world_ranks;
  const std::shared_ptr<Segment> control;        // of the ranks' PeerMemory
  std::vector<std::deque<Message*>> boxes;       // in order of posting
  std::vector<std::condition_variable> changed;  // by rank of the group
};

class LocalWorld : public std::enable_shared_from_this<LocalWorld> {
 public:
  // `hosts` by rank; empty for this host.
  explicit LocalWorld(int ranks, std::vector<std::string> hosts = {});

  const std::string& host(int world_rank) const { return hosts_[index(world_rank)]; }
  int size() const { return static_cast<int>(ranks_.size()); }

  std::mutex mutex;

  // The rest requires the mutex.
  const std::optional<Fault>& fault() const { return fault_; }
  // Keeps the first fault and wakes every waiting rank.
  void fail(Fault fault);
  // When waits must give up because of the fault (stage.h, kSettle); none without a fault.
  std::optional<std::chrono::steady_clock::time_point> stop_time() const { return stop_time_; }
  void publish(int world_rank, const Stage& stage) { ranks_[index(world_rank)].stage = stage; }
  // The rank's body has returned.
  void end(int world_rank);
  bool ended(int world_rank) const { return ranks_[index(world_rank)].ended; }
  PeerStatus status(int world_rank) const;
  std::shared_ptr<LocalGroup> make_group(const std::vector<int>& world_ranks);
  // The group that the ranks `world_ranks` form in their `call`-th call of `parent`: made by the
  // first of them, found by the others.
  std::shared_ptr<LocalGroup> join(const LocalGroup* parent, int call,
                                   const std::vector<int>& world_ranks);

 private:
  friend struct LocalGroup;
  struct RankState {
    Stage stage;
    bool ended = false;
  };
  struct Forming {
    std::weak_ptr<LocalGroup> group;  // its transports own it
    std::size_t joined = 0;
  };
  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  void wake_all();

  std::vector<std::string> hosts_;
  std::vector<RankState> ranks_;
  std::optional<Fault> fault_;
  std::optional<std::chrono::steady_clock::time_point> stop_time_;
  std::vector<LocalGroup*> groups_;
  // By parent, call and first member.
  std::map<std::tuple<const LocalGroup*, int, std::vector<int>>, Forming> forming_;
};

}  // namespace nqd::collectives::local
