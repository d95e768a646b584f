// One NCCL communicator of one rank from its start to its end: every wait for it has a deadline,
// looks at NCCL's asynchronous error and at the host's knowledge of lost ranks, and ends it by
// abort when it has failed. What is put on its streams is in calls.h and communicator.h.
#pragma once

#include <chrono>
#include <exception>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "collectives/communicator.h"
#include "collectives/device/device_handles.h"
#include "collectives/nccl/nccl_api.h"
#include "collectives/stage.h"

namespace nqd::collectives {

struct NcclOptions {
  std::chrono::milliseconds deadline{60'000};
  // Where the caller computes: calls are ordered behind what it holds when they are made. Null: the
  // default stream.
  DeviceStream compute = nullptr;
  // CUDA device of this rank; none: its place among the ranks of its host, modulo the devices that
  // it sees.
  std::optional<int> device{};
  // Called at most once, with the error that the caller is about to get, before the communicator is
  // aborted. For what must be written before that; it must not throw.
  std::function<void(const Error&)> last_words{};
};

// A rank of a group.
struct NcclMember {
  int world_rank = 0;
  std::string host;
};

class NcclSession {
 public:
  struct Place {
    std::string group;
    int rank = 0;
    std::vector<NcclMember> members;
    int device = 0;
    // The same ranks over another backend, used for nothing else: it knows who is lost, and names
    // who is late. Null where there is none.
    std::unique_ptr<Communicator> control;
  };
  NcclSession(DeviceApi& device, NcclApi& nccl, Place place, NcclOptions options);
  // Ends the communicator, or aborts it where it has failed or an exception is on its way.
  ~NcclSession();
  NcclSession(const NcclSession&) = delete;
  NcclSession& operator=(const NcclSession&) = delete;

  // Collective. Starts NCCL; returns when it is up.
  void start(const NcclUniqueId& id);
  // Collective over `parent`. Starts it as the part of `color`, ordered by `key`; color < 0 takes
  // part on behalf of nobody, and then this session has no handle and ends.
  void start_part(NcclSession& parent, int color, int key, bool blocking);

  const Place& place() const { return place_; }
  const NcclOptions& options() const { return options_; }
  void set_deadline(std::chrono::milliseconds deadline) { options_.deadline = deadline; }
  int rank() const { return place_.rank; }
  int size() const { return static_cast<int>(place_.members.size()); }
  DeviceApi& device() { return device_; }
  NcclApi& nccl() { return nccl_; }
  NcclHandle handle() const { return handle_; }
  // Of this communicator's operations.
  DeviceStream stream() const { return stream_.get(); }
  // Memory of a few bytes for barriers and splits.
  std::span<std::byte> small(std::size_t bytes) { return small_.take(bytes); }

  // Rethrows the error that ended the communicator; else makes its device the calling thread's.
  void enter();
  // Puts the communication stream behind what the compute stream holds now.
  void follow_compute();
  // Throws for a result of NCCL that is a failure.
  void check(NcclResult result, const Stage& stage);
  // Returns when what was handed to NCCL is on its streams.
  void settle(const Stage& stage);
  // Returns when the device has come to `event`.
  void wait(DeviceEvent event, const Stage& stage);

 private:
  NcclCommOptions comm_options(bool blocking) const;
  template <typename Done>
  void poll(const Stage& stage, const Done& done);
  NcclResult state();
  // Throws PeerLostError when the control communicator knows of a fault.
  void look_at_peers(const Stage& stage);
  [[noreturn]] void fail_reported(NcclResult result, const Stage& stage);
  [[noreturn]] void fail_late(const Stage& stage);
  [[noreturn]] void fail_lost(const PeerLostError& lost, const Stage& stage,
                              const std::string& nccl_text);
  // Keeps the error, has it written, aborts, and throws it.
  template <typename Failure>
  [[noreturn]] void break_off(const Failure& error);
  void give_up() noexcept;
  std::string whereabouts(const Stage& stage) const;

  DeviceApi& device_;
  NcclApi& nccl_;
  Place place_;
  NcclOptions options_;
  const int exceptions_;  // on their way when it began
  NcclHandle handle_ = nullptr;
  std::exception_ptr broken_;
  OwnedStream stream_;
  OwnedEvent fork_;
  DeviceBlock small_;
};

}  // namespace nqd::collectives
