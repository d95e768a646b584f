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
#include "collectives/nccl/stream_calls.h"
#include "collectives/stage.h"

namespace nqd::collectives {

class NcclSessions;

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
  // Calls return, and waits for started ones too, when the compute stream is behind them: the host
  // waits for nothing but barriers, splits and connect(). Whoever waits for the device then asks
  // `sessions` now and then. Any algorithm may be asked for: NCCL's runs, and the one asked for is
  // what traffic counts, as a plan does.
  bool stream_ordered = false;
  // The communicators of this rank, those of later splits too; needed where stream_ordered.
  std::shared_ptr<NcclSessions> sessions{};
  // Thread blocks that a call may take from what computes (ncclConfig_t.maxCTAs); 0: NCCL's choice.
  int max_blocks = 0;
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
  // A call that is about to be put on the stream: behind what the compute stream holds now.
  std::shared_ptr<StreamCall> begin_call(const Stage& stage);
  // It was handed to NCCL. Returns when it is on the stream.
  void end_call(const std::shared_ptr<StreamCall>& call);
  // Puts the compute stream behind the call. The host does not wait.
  void follow(const std::shared_ptr<StreamCall>& call);
  // Throws for a result of NCCL that is a failure.
  void check(NcclResult result, const Stage& stage);
  // Returns when what was handed to NCCL is on its streams.
  void settle(const Stage& stage);
  // Returns when the device has come to `event`, or has completed the call.
  void wait(DeviceEvent event, const Stage& stage);
  void wait(StreamCall& call);
  // Throws what has ended the communicator: NCCL's asynchronous error, a lost rank, or a call that
  // the device has come to and that is not complete by the deadline. What whoever waits for the
  // device asks now and then.
  void look();
  // Seconds that the compute stream stood still for calls since it was asked last: those that the
  // device has passed.
  double take_stood_s();
  // Aborts the communicator of a rank that has failed elsewhere: what is on its stream comes to
  // nothing, and later calls throw NQD4012.
  void abandon() noexcept;

 private:
  const NcclCommOptions& comm_options(bool blocking);
  void join();  // the sessions of the rank, once NCCL is up
  void end();   // when all that is on the stream is complete
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
  // What `ask` says; an error of the device ends the communicator.
  template <typename Ask>
  auto ask_device(const Stage& stage, const Ask& ask);

  DeviceApi& device_;
  NcclApi& nccl_;
  Place place_;
  NcclOptions options_;
  const int exceptions_;          // on their way when it began
  NcclCommOptions comm_options_;  // before what refers to its name
  NcclHandle handle_ = nullptr;
  std::exception_ptr broken_;
  OwnedStream stream_;
  OwnedEvent fork_;
  DeviceBlock small_;
  StreamCalls calls_;
  bool started_ = false;
  std::chrono::steady_clock::time_point looked_{};  // at the peers
};

}  // namespace nqd::collectives
