// What brings together processes of one host that no library started: their control exchange,
// groups, and direct access to memory, all through memory that they share. Messages travel through
// the ShmTransport on top.
#pragma once

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include "collectives/liveness/watchdog.h"
#include "collectives/shared/peer_memory.h"
#include "collectives/shared/segment.h"
#include "collectives/transport.h"

namespace nqd::collectives::shm {

class ProcessTransport final : public Transport {
 public:
  struct Group {
    std::string name;
    int rank = 0;
    std::vector<int> world_ranks;  // by rank of the group
    std::chrono::milliseconds deadline{60'000};
  };

  // Collective: returns when every rank of the group has made its own. `control` has
  // control_bytes(size) zero-filled bytes and is mapped by all of them. The watchdog must outlive
  // the transport.
  ProcessTransport(Watchdog& watchdog, std::shared_ptr<Segment> control, Group group);
  static std::size_t control_bytes(int size);

  int rank() const override { return group_.rank; }
  int size() const override { return static_cast<int>(group_.world_ranks.size()); }
  std::string_view backend() const override { return "shm"; }
  int world_rank(int rank) const override {
    return group_.world_ranks[static_cast<std::size_t>(rank)];
  }
  const std::string& host(int rank) const override { return watchdog_.host(world_rank(rank)); }

  std::vector<std::byte> gather_control(std::span<const std::byte> mine) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& members,
                                      const std::string& name) override;
  PeerMemory* peer_memory() override { return peers_.get(); }
  void acknowledge_fault() override { watchdog_.acknowledge(); }

 private:
  struct Handover;

  Handover& handover(int from, int to) const;
  // The address of a segment, from the first rank of a group that forms to each of the others.
  void give(int to, const Segment::Address& address);
  Segment::Address take(int from);
  void check_wait(double waited_s, const std::vector<int>& pending);

  void do_check() override;
  void do_publish() override { watchdog_.publish(stage()); }
  void do_send(std::span<const std::byte> data, int to, int tag) override;
  void do_receive(std::span<std::byte> data, int from, int tag) override;
  void do_wait() override;

  Watchdog& watchdog_;
  const std::shared_ptr<Segment> control_;
  const Group group_;
  std::unique_ptr<PeerMemory> peers_;
};

}  // namespace nqd::collectives::shm
