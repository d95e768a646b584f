// Messages between processes through nonblocking MPI calls on a communicator of the group's own.
// Only for the .cpp files of this folder: it includes mpi.h.
#pragma once

#include <mpi.h>

#include <memory>
#include <string>
#include <vector>

#include "collectives/liveness/watchdog.h"
#include "collectives/transport.h"

namespace nqd::collectives::mpi {

class MpiTransport final : public Transport {
 public:
  // Takes over `communicator`, whose errors must return. `world_ranks` by rank of the group. The
  // watchdog must outlive the transport.
  MpiTransport(Watchdog& watchdog, MPI_Comm communicator, std::vector<int> world_ranks,
               const std::string& name);
  ~MpiTransport() override;

  int rank() const override { return rank_; }
  int size() const override { return static_cast<int>(world_ranks_.size()); }
  std::string_view backend() const override { return "mpi"; }
  int world_rank(int rank) const override { return world_ranks_[static_cast<std::size_t>(rank)]; }
  const std::string& host(int rank) const override { return watchdog_.host(world_rank(rank)); }

  std::vector<std::byte> gather_control(std::span<const std::byte> mine) override;
  std::unique_ptr<Transport> subgroup(const std::vector<int>& members,
                                      const std::string& name) override;
  void library_collective(const CollectiveCall& call) override;
  void library_exchange(std::span<const std::byte> data, int to, std::span<std::byte> received,
                        int from) override;
  PeerMemory* peer_memory() override { return peers_.get(); }
  PeerMemory* host_memory() override;
  // Collective. Finds out whether the ranks of the group, or those of it on each host, share
  // memory; peer_memory() and host_memory() from here on.
  void open_peer_memory();
  void acknowledge_fault() override { watchdog_.acknowledge(); }

 private:
  struct Posted {
    int peer = 0;  // rank in the group; -1: all of them
    bool is_receive = false;
    std::size_t bytes = 0;
  };

  PeerMemory::Options peer_options();
  void do_check() override;
  void do_publish() override { watchdog_.publish(stage()); }
  void do_send(std::span<const std::byte> data, int to, int tag) override;
  void do_receive(std::span<std::byte> data, int from, int tag) override;
  void do_wait() override;

  MPI_Request* post(const Posted& posted);
  // Throws NQD4005 or NQD4010 for the outcome of MPI_Testall.
  void check_outcome(int code, const std::vector<MPI_Status>& statuses) const;
  // No later message may land in this rank's buffers.
  void abandon();
  std::vector<int> pending_peers();  // world ranks
  std::unique_ptr<Watchdog::LibraryCall> library_call() const;

  Watchdog& watchdog_;
  MPI_Comm communicator_;
  std::vector<int> world_ranks_;
  int rank_ = 0;
  // Whose state a timeout looks at: the group, for the part of it on one host the whole of it.
  std::vector<int> watched_;
  std::vector<Posted> posted_;
  std::vector<MPI_Request> requests_;  // of posted_
  std::unique_ptr<PeerMemory> peers_;
  std::unique_ptr<Transport> host_group_;  // where the group spans hosts
};

}  // namespace nqd::collectives::mpi
