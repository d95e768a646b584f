// Messages between processes of one host through memory that they share, beside another transport
// that brings them together.
//
// A message of up to kCopyBytes is copied into a cell of the channel to its receiver and out of it.
// A longer one is shown in place: the receiver copies it once, from the sender's SharedBuffer or
// with process_vm_readv. Where private memory cannot be read, it flows through the cells in parts,
// which both sides copy side by side. A send ends when its data may be reused: copied, or received.
//
// Messages match by tag, in order. A message of another collective than the one that this rank is
// in is Error (kFault, NQD4005); one of another kind (point to point while in a collective, or the
// reverse) is kept until it is asked for.
#pragma once

#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "collectives/liveness/watchdog.h"
#include "collectives/shared/phase.h"
#include "collectives/shared/segment.h"
#include "collectives/shm/channel.h"
#include "collectives/transport.h"

namespace nqd::collectives::shm {

// Collective over the group of `base`, whose control exchange, splits, library and direct access to
// memory the result uses. `watchdog` must outlive it. Throws Error (kEnvironment, NQD3007), on
// every rank, when the ranks do not share memory.
std::unique_ptr<Transport> make_transport(Watchdog& watchdog, std::unique_ptr<Transport> base);

class ShmTransport final : public Transport {
 public:
  // `segment` has bytes(size) zero-filled bytes and is mapped by every rank of the group.
  ShmTransport(Watchdog& watchdog, std::unique_ptr<Transport> base,
               std::shared_ptr<Segment> segment);
  static std::size_t bytes(int size);

  int rank() const override { return base_->rank(); }
  int size() const override { return base_->size(); }
  std::string_view backend() const override { return "shm"; }
  int world_rank(int rank) const override { return base_->world_rank(rank); }
  const std::string& host(int rank) const override { return base_->host(rank); }

  std::vector<std::byte> gather_control(std::span<const std::byte> mine) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& members,
                                      const std::string& name) override;
  void library_collective(const CollectiveCall& call) override { base_->library_collective(call); }
  void library_exchange(std::span<const std::byte> data, int to, std::span<std::byte> received,
                        int from) override {
    base_->library_exchange(data, to, received, from);
  }
  PeerMemory* peer_memory() override { return base_->peer_memory(); }
  PeerMemory* host_memory() override { return base_->host_memory(); }
  void acknowledge_fault() override { watchdog_.acknowledge(); }

 private:
  struct Send {
    std::span<const std::byte> data;
    int tag = 0;
    BufferPlace place;
    bool in_place = false;
    std::size_t copied = 0;
    std::uint32_t cells = 0;  // pushed() of the channel after its last cell
  };
  struct Receive {
    std::span<std::byte> data;
    int tag = 0;
    bool done = false;
  };
  // A message that nobody has asked for yet.
  struct Early {
    int tag = 0;
    std::vector<std::byte> data;
    bool complete = false;
  };
  // Where the message that is coming in goes.
  struct Arriving {
    bool active = false;
    Receive* receive = nullptr;  // null: the last of `early`
    std::span<std::byte> target;
    std::size_t done = 0;
  };
  // Both directions between this rank and another.
  struct Peer {
    int rank = 0;
    Channel* out = nullptr;
    Channel* in = nullptr;
    std::vector<Send> sends;  // since the last wait
    std::size_t pushed = 0;   // of them, wholly in the channel
    std::size_t ended = 0;    // of them
    std::vector<Receive> receives;
    std::size_t received = 0;  // of them
    std::deque<Early> early;
    Arriving arriving;
    std::map<std::uint64_t, std::shared_ptr<Segment>> mappings;  // of its buffers, by nonce
    std::uint32_t freed = 0;                                     // of the peer, when they were made
    bool done() const { return ended == sends.size() && received == receives.size(); }
  };

  void do_check() override;
  void do_publish() override { base_->follow(*this); }
  void do_send(std::span<const std::byte> data, int to, int tag) override;
  void do_receive(std::span<std::byte> data, int from, int tag) override;
  void do_wait() override;

  // Does what can be done now. True: everything posted is complete.
  bool progress();
  void push_sends(Peer& peer);
  void fill(Cell& cell, Send& send) const;
  void take_messages(Peer& peer);
  void take_early(Peer& peer);
  void begin_message(Peer& peer, const Cell& cell);
  void take_part(Peer& peer, const Cell& cell);
  void end_message(Peer& peer);
  // Copies a message from where its sender keeps it.
  void copy_from_place(Peer& peer, const Cell& cell, std::span<std::byte> to);
  [[noreturn]] void throw_crossed(const Peer& peer, const Cell& cell) const;
  // Throws when the world has failed, or fails it when the deadline has passed.
  void check_progress(std::chrono::steady_clock::time_point start);
  void forget_posted();
  Phase& bell(int rank) const;

  Watchdog& watchdog_;
  const std::unique_ptr<Transport> base_;
  const std::shared_ptr<Segment> segment_;
  const int spins_;
  const bool can_pull_;  // private memory of the peers
  std::vector<int> world_ranks_;
  std::vector<Peer> peers_;  // by rank, this one included
};

}  // namespace nqd::collectives::shm
