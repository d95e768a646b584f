// A Communicator on buffers of the other side: device buffers over a backend of the host (mpi, shm,
// local), which is how ranks use GPUs without NCCL and several use one; or host buffers over NCCL.
#pragma once

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>

#include "collectives/communicator.h"
#include "collectives/device/device_handles.h"
#include "collectives/worker.h"

namespace nqd::collectives {

struct StagingOptions {
  // kDevice: calls take memory of `device`, the inner communicator memory of the host. kHost: the
  // other way round.
  enum class Buffers { kDevice, kHost };
  Buffers buffers = Buffers::kDevice;
  int device = 0;
  // Where the caller computes: copies begin behind what it holds when a call is made. Null: the
  // default stream.
  DeviceStream compute = nullptr;
  // Device buffers: vectors of all_reduce, reduce and broadcast are copied in pieces of about so
  // many bytes, of which one is on its way to the host, one in the collective and one on its way
  // back at any time.
  std::size_t piece_bytes = std::size_t{4} << 20;
};

// Each call copies what it reads to staging memory, runs there on the inner communicator with the
// algorithm that the whole vector would take, and copies back what it wrote. It returns, and a Work
// is complete, when the device holds the result. Results are those of the inner communicator; in
// pieces, a fast algorithm such as a ring adds in the order of the piece.
//
// Pieces are multiples of what the ranks divide, so that bytes and messages are counted as for the
// whole vector (a pipelined message counts once); the inner communicator itself counts each piece.
// Staging memory is pinned where it is the host's, grows to what calls need, and no ledger counts
// it: set_ledger goes to the inner communicator.
class StagedCommunicator final : public Communicator {
 public:
  // `inner` and `api` outlive it.
  StagedCommunicator(Communicator& inner, DeviceApi& api, const StagingOptions& options);
  StagedCommunicator(std::unique_ptr<Communicator> inner, DeviceApi& api,
                     const StagingOptions& options);
  ~StagedCommunicator() override;

  int rank() const override { return inner_.rank(); }
  int size() const override { return inner_.size(); }
  const std::string& group() const override { return inner_.group(); }
  std::string_view backend() const override { return inner_.backend(); }
  const std::string& host(int rank) const override { return inner_.host(rank); }
  int world_rank(int rank) const override { return inner_.world_rank(rank); }

  void run(const CollectiveCall& call, Algorithm algorithm) override;
  Work start(const CollectiveCall& call, Algorithm algorithm) override;
  Algorithm chosen(Collective collective, Algorithm algorithm,
                   std::optional<std::uint64_t> bytes) const override {
    return inner_.chosen(collective, algorithm, bytes);
  }
  // Peers reach the staging memory, not the caller's.
  bool shares_memory() const override { return false; }
  void set_tuning(std::shared_ptr<const Tuning> tuning) override;
  void send(std::span<const std::byte> data, int to) override;
  void receive(std::span<std::byte> data, int from) override;
  void send_receive(std::span<const std::byte> data, int to, std::span<std::byte> received,
                    int from, Algorithm algorithm) override;
  Work send_async(std::span<const std::byte> data, int to) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& group) override;

  Traffic traffic() const override;
  void reset_traffic() override;
  void set_ledger(MemoryLedger* ledger) override;
  void set_deadline(std::chrono::milliseconds deadline) override;

 private:
  // Staging memory of one direction, and when the device has passed it.
  struct Slot {
    DeviceBlock memory;
    OwnedEvent fetched;
    OwnedEvent stored;
  };
  // A call with the event that its copies begin behind.
  struct Begin {
    OwnedEvent event;
  };

  Slot make_slot() const;
  std::shared_ptr<Begin> begin() const;
  void run_in_order(const std::function<void()>& operation);
  Work submit(std::function<void()> operation);
  void drain() const;
  void run_call(const CollectiveCall& call, Algorithm algorithm, const Begin& begin);
  void run_whole(const CollectiveCall& call, Algorithm algorithm);
  void run_pieces(const CollectiveCall& call, Algorithm algorithm, std::size_t piece);
  void exchange(std::span<const std::byte> data, int to, std::span<std::byte> received, int from,
                Algorithm algorithm, const Begin& begin);
  // Elements of a piece; 0 where the call is run as a whole.
  std::size_t piece_elements(const CollectiveCall& call) const;
  void fetch(std::span<std::byte> to, std::span<const std::byte> from, Slot& slot);
  void store(std::span<std::byte> to, std::span<const std::byte> from, Slot& slot);
  void wait(const OwnedEvent& event) const;
  void settle() noexcept;

  std::unique_ptr<Communicator> owned_;
  Communicator& inner_;
  DeviceApi& api_;
  const StagingOptions options_;
  std::size_t unit_ = 1;  // elements that all ranks' parts of a piece are whole lines of
  OwnedStream down_;      // to staging memory
  OwnedStream up_;
  std::array<Slot, 2> slots_;
  std::map<Collective, TrafficCount> surplus_;  // that pieces counted more than the whole
  // Destroyed first, so that pending operations end while the rest lives.
  std::unique_ptr<Worker> worker_;
};

}  // namespace nqd::collectives
