// What the watchdogs of different hosts tell each other: that a host lives, and the fault of the
// world. In datagrams of their own, because the MPI library may be stuck when there is something to
// tell. Where a firewall drops them nothing is known of other hosts, and a wait for one ends at its
// deadline.
#pragma once

#include <array>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <vector>

#include "collectives/stage.h"

namespace nqd::collectives {

class Relay {
 public:
  // How another host reaches a process: its IPv4 addresses in network order, 0 for none.
  struct Address {
    std::array<std::uint32_t, 4> hosts{};
    std::uint16_t port = 0;
  };
  struct News {
    int rank = 0;                // of the sender, as it was given
    std::optional<Fault> fault;  // none: it lives
  };

  // `job` is the same number on all ranks of a job and on no other; `rank` is this one's. Without a
  // socket it stays dumb and deaf.
  Relay(std::uint64_t job, int rank);
  ~Relay();
  Relay(const Relay&) = delete;
  Relay& operator=(const Relay&) = delete;

  const Address& address() const { return address_; }
  // Readable when there is news; -1 without a socket.
  int descriptor() const { return socket_; }
  // The process of another host that shall hear from this one. Before the first send.
  void add_peer(const Address& peer) { peers_.push_back(peer); }

  // Any thread may call these. They do not block, and a datagram may get lost. Long texts are cut.
  void send_alive() const;
  void send(const Fault& fault) const;

  // The next news of this job that has arrived.
  std::optional<News> receive() const;

 private:
  struct Datagram;
  void send(const Datagram& datagram) const;

  const std::uint64_t job_;
  const int rank_;
  int socket_ = -1;
  Address address_;
  std::vector<Address> peers_;
};

}  // namespace nqd::collectives
