// The Communicator over NCCL: the spans of its calls are memory of the rank's CUDA device.
//
// Calls run on a communication stream of its own, behind what the compute stream (NcclOptions) held
// when they were made, and in issue order. Blocking calls return when the device has done the work;
// enqueue() returns at once, with a handle by which other streams wait, so that computation and
// communication overlap without a host thread.
//
// With NcclOptions::stream_ordered all calls do so: a blocking call, or Work::wait() of a started
// one, puts the compute stream behind it and returns. So code that is written for a host that waits
// (start, compute, wait, use the result) overlaps on the device as it stands, and the host asks
// ahead of it. What a call reads or writes must then be used by the compute stream alone, and must
// not be freed before that has passed the wait. A Work that goes without wait() puts the compute
// stream behind the call too, and never blocks; its elapsed_s() is 0, since nobody knows yet.
//
// What differs from other backends: NCCL chooses the algorithm (`auto` and `library` are the same,
// others are refused with NQD2102), so sums are not canonical; traffic is what plans count
// (calls.h), not what NCCL moved; a message of a wrong length cannot be noticed (NQD4005), it hangs
// until the deadline; barriers and splits keep a few bytes of device memory that no ledger counts.
// Communicators whose ranks are on one device must be used in the same order on all ranks, or wait
// for each other (NCCL user guide, "Using multiple NCCL communicators concurrently").
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>

#include "collectives/communicator.h"
#include "collectives/nccl/session.h"

namespace nqd::collectives {

// A call on the communication stream. Movable; unlike Work it does not wait when it goes: the
// buffers must stay until the device has passed it.
class StreamWork {
 public:
  // Returns when the device has completed it; throws what ended the communicator. Idempotent.
  void wait();
  // What is put on `stream` from now on runs after it. The host does not wait.
  void order(DeviceStream stream) const;
  // Seconds on the device. Call after wait().
  double elapsed_s() const;

 private:
  friend class NcclCommunicator;
  StreamWork(std::shared_ptr<NcclSession> session, std::shared_ptr<StreamCall> call)
      : session_(std::move(session)), call_(std::move(call)) {}
  Work handle() &&;  // for a caller of start()
  void finish();     // for a blocking call

  std::shared_ptr<NcclSession> session_;
  std::shared_ptr<StreamCall> call_;
};

// Device memory that NCCL knows beforehand, so that it needs no copies of its own on the way
// (NCCL user guide, "User Buffer Registration"): where it can be had, else plain memory.
class NcclBuffer {
 public:
  NcclBuffer() = default;
  NcclBuffer(std::shared_ptr<NcclSession> session, std::size_t bytes);
  ~NcclBuffer();
  NcclBuffer(NcclBuffer&& other) noexcept;
  NcclBuffer& operator=(NcclBuffer&& other) noexcept;

  std::span<std::byte> bytes() const { return {data_, size_}; }
  bool registered() const { return handle_ != nullptr; }

 private:
  void reset() noexcept;

  std::shared_ptr<NcclSession> session_;
  std::byte* data_ = nullptr;
  std::size_t size_ = 0;
  bool from_nccl_ = false;
  void* handle_ = nullptr;
};

class NcclCommunicator final : public Communicator {
 public:
  explicit NcclCommunicator(std::shared_ptr<NcclSession> session) : session_(std::move(session)) {}

  int rank() const override { return session_->rank(); }
  int size() const override { return session_->size(); }
  const std::string& group() const override { return session_->place().group; }
  std::string_view backend() const override { return "nccl"; }
  const std::string& host(int rank) const override { return member(rank).host; }
  int world_rank(int rank) const override { return member(rank).world_rank; }

  void run(const CollectiveCall& call, Algorithm algorithm) override;
  Work start(const CollectiveCall& call, Algorithm algorithm) override;
  Algorithm chosen(Collective collective, Algorithm algorithm,
                   std::optional<std::uint64_t> bytes) const override;
  bool shares_memory() const override { return false; }
  // NCCL chooses by tables of its own.
  void set_tuning(std::shared_ptr<const Tuning>) override {}
  void send(std::span<const std::byte> data, int to) override;
  void receive(std::span<std::byte> data, int from) override;
  void send_receive(std::span<const std::byte> data, int to, std::span<std::byte> received,
                    int from, Algorithm algorithm) override;
  Work send_async(std::span<const std::byte> data, int to) override;
  std::unique_ptr<Communicator> split(int color, int key, const std::string& group) override;
  // The same with options of its own; the device, and where it computes, stay.
  std::unique_ptr<NcclCommunicator> split(int color, int key, const std::string& group,
                                          const NcclOptions& options);
  void connect() override;

  Traffic traffic() const override;
  void reset_traffic() override { counts_.clear(); }
  void set_ledger(MemoryLedger*) override {}
  void set_deadline(std::chrono::milliseconds deadline) override {
    session_->set_deadline(deadline);
  }

  // Collective. Puts the call on the communication stream and returns.
  StreamWork enqueue(const CollectiveCall& call) { return enqueue(call, Algorithm::kAuto); }
  // A message each way (−1 is nobody), likewise.
  StreamWork enqueue_exchange(std::span<const std::byte> data, int to,
                              std::span<std::byte> received, int from);
  // Collective. Puts the call on `stream` itself, in its order and without events: for graphs.
  void put(const CollectiveCall& call, DeviceStream stream);
  void put_exchange(std::span<const std::byte> data, int to, std::span<std::byte> received,
                    int from, DeviceStream stream);

  // Collective. The same ranks in a communicator whose calls block until NCCL has taken them: what
  // graphs and estimates need. Nothing bounds a wait inside NCCL then.
  std::unique_ptr<NcclCommunicator> blocking_twin();
  // Seconds that NCCL estimates for the call (ncclGroupSimulateEnd), which does not run; nothing
  // where it estimates none. Of a blocking_twin() alone.
  std::optional<double> estimate_s(const CollectiveCall& call);

  // `bytes` bytes of registered device memory for calls of this communicator. Not collective.
  NcclBuffer allocate(std::size_t bytes) { return {session_, bytes}; }
  NcclSession& session() { return *session_; }

 private:
  const NcclMember& member(int rank) const {
    return session_->place().members[static_cast<std::size_t>(rank)];
  }
  // `algorithm`: what a plan counts.
  Stage count(const CollectiveCall& call, Algorithm algorithm);
  StreamWork enqueue(const CollectiveCall& call, Algorithm algorithm);
  Stage count_message(std::span<const std::byte> data, int to);
  Stage next_stage(Collective collective);
  template <typename Put>
  StreamWork on_stream(const Stage& stage, const Put& put);
  std::unique_ptr<NcclCommunicator> part(int color, int key, const std::string& group,
                                         bool blocking, const NcclOptions& options);
  // Collective. Every rank's two numbers, by rank.
  std::vector<std::array<std::int32_t, 2>> exchange(std::array<std::int32_t, 2> mine);

  std::shared_ptr<NcclSession> session_;
  std::map<Collective, TrafficCount> counts_;
  std::uint64_t calls_ = 0;
  std::uint64_t messages_ = 0;
};

}  // namespace nqd::collectives
