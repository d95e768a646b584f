// Messages between threads through the mailboxes of a LocalGroup. A waiting rank sleeps on a
// condition variable.
#pragma once

#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <vector>

#include "collectives/local/local_world.h"
#include "collectives/transport.h"

namespace nqd::collectives::local {

class LocalTransport final : public Transport {
 public:
  LocalTransport(std::shared_ptr<LocalGroup> group, int rank, const std::string& name);

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(group_->world_ranks.size()); }
  std::string_view backend() const override { return "local"; }
  int world_rank(int rank) const override;
  const std::string& host(int rank) const override { return world_->host(world_rank(rank)); }
  PeerMemory* peer_memory() override { return host_group_ ? nullptr : &peers_; }
  PeerMemory* host_memory() override;

  std::vector<std::byte> gather_control(std::span<const std::byte> mine) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& members,
                                      const std::string& name) override;

 private:
  struct Receive {
    std::span<std::byte> data;
    int from = 0;
    int tag = 0;
    bool done = false;
  };

  std::unique_ptr<LocalTransport> join(const std::vector<int>& members, const std::string& name);
  void do_check() override;
  void do_publish() override;
  void do_send(std::span<const std::byte> data, int to, int tag) override;
  void do_receive(std::span<std::byte> data, int from, int tag) override;
  void do_wait() override;

  // Copies the messages that have arrived, releasing the lock for each copy. True when it did:
  // others may have arrived in the meantime, whose wake-up was not heard.
  bool take_arrivals(std::unique_lock<std::mutex>& lock);
  void copy_message(std::unique_lock<std::mutex>& lock, Message& message, Receive& receive);
  bool complete() const;
  std::vector<int> pending_peers() const;  // world ranks
  // Fails the world when one of the world ranks `pending` has ended, or when time is up. Requires
  // the mutex.
  void check_progress(double waited_s, const std::vector<int>& pending);
  PeerMemory::Options peer_options();
  // Throws when the world has failed, or fails it when a rank of the group is late or has ended.
  void check_ranks(double waited_s);
  // Takes back what was posted, so that no peer touches this rank's buffers any more.
  void withdraw(std::unique_lock<std::mutex>& lock);

  std::shared_ptr<LocalGroup> group_;
  std::shared_ptr<LocalWorld> world_;
  int rank_;
  // Calls by members: a rank that stays out of a group makes no call for it.
  std::map<std::vector<int>, int> subgroup_calls_;
  std::deque<Message> sends_;  // a deque keeps addresses
  std::vector<Receive> receives_;
  PeerMemory peers_;
  std::unique_ptr<LocalTransport> host_group_;  // where the group spans pretended hosts
};

}  // namespace nqd::collectives::local
