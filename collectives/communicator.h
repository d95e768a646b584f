// The one interface through which ranks exchange data. Backends: local (ranks are threads of one
// process), mpi and shm (ranks are processes). Every call marked "collective" must be made by all
// ranks of the communicator in the same order with the same count, type and operator.
//
// Failure: when a rank of the world is lost, stops answering until the deadline, or fails, every
// pending and later call of the others throws PeerLostError or TimeoutError (both exit code 4);
// nobody waits for ever.
//
// Thread safety: one thread at a time may call into one communicator. Asynchronous operations run
// in issue order on the communicator's own worker; the caller must not touch the buffers until
// wait().
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "base/dtype.h"
#include "base/error.h"
#include "base/ledger.h"
#include "collectives/types.h"

namespace nqd::collectives {

class Tuning;

// A rank died or reported a failure. NQD4001.
class PeerLostError : public Error {
 public:
  // `failed`: the rank said itself why it ends; else it is gone without a word.
  PeerLostError(int lost_rank, std::string host, const std::string& message, bool failed = false);
  int lost_rank() const { return lost_rank_; }  // rank in the world
  const std::string& host() const { return host_; }
  bool failed() const { return failed_; }

 private:
  int lost_rank_;
  std::string host_;
  bool failed_;
};

// A wait passed its deadline; `waiting_for` are the world ranks that did not arrive, and `host` the
// host of the first. NQD4002.
class TimeoutError : public Error {
 public:
  TimeoutError(std::vector<int> waiting_for, std::string host, const std::string& message);
  const std::vector<int>& waiting_for() const { return waiting_for_; }
  const std::string& host() const { return host_; }

 private:
  std::vector<int> waiting_for_;
  std::string host_;
};

// What this rank sent, counted inside the transport's send, by group and collective.
struct TrafficCount {
  std::uint64_t calls = 0;
  std::uint64_t messages = 0;
  std::uint64_t bytes_sent = 0;
};
struct TrafficKey {
  std::string group;  // "world", "dp", …
  Collective collective;
  auto operator<=>(const TrafficKey&) const = default;
};
using Traffic = std::map<TrafficKey, TrafficCount>;

// One call of a collective; what each field means is said at the function of that name. A member
// that the collective does not have stays as it is here.
struct CollectiveCall {
  Collective collective = Collective::kBarrier;
  std::span<const std::byte> in;
  std::span<std::byte> out;  // broadcast works in it
  DType type = DType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  int root = 0;
  // Elements to and from each rank: an all_to_all of parts of any length. Must live until the call
  // is complete.
  std::span<const std::size_t> in_counts{};
  std::span<const std::size_t> out_counts{};

  bool has_counts() const { return !in_counts.empty(); }
};

// A handle to an asynchronous operation. Movable; destroying it without wait() waits and drops the
// error (an abandoned handle never leaves a buffer in flight).
class Work {
 public:
  struct State;  // the worker's record of one operation
  Work();
  explicit Work(std::shared_ptr<State> state);
  ~Work();
  Work(Work&&) noexcept;
  Work& operator=(Work&&) noexcept;

  // Returns when the operation is complete; rethrows its error. Idempotent.
  void wait();
  // Seconds the operation itself ran (excluding its time in the queue). Call after wait().
  double elapsed_s() const;

 private:
  std::shared_ptr<State> state_;
};

class Communicator {
 public:
  virtual ~Communicator() = default;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual const std::string& group() const = 0;         // "world" or the name given to split
  virtual std::string_view backend() const = 0;         // "local", "mpi" or "shm"
  virtual const std::string& host(int rank) const = 0;  // host name of a rank of this group
  virtual int world_rank(int rank) const = 0;

  // Collective. Runs or starts any of the collectives below, which say what `call` must hold. A
  // started call returns at once; those of one communicator run in issue order on its worker,
  // behind one another, and before any later blocking call.
  virtual void run(const CollectiveCall& call, Algorithm algorithm) = 0;
  virtual Work start(const CollectiveCall& call, Algorithm algorithm) = 0;

  // Collective. out = reduction of every rank's `in`, elementwise. `in` and `out` are the same span
  // (in place) or do not overlap; equal sizes, a multiple of the element size. Any count, also 0.
  // kAvg on integer types throws Error (kUsage). Half-width floats are added in float32; algorithms
  // that send partial sums round them at every hop, direct once.
  void all_reduce(std::span<const std::byte> in, std::span<std::byte> out, DType type, ReduceOp op,
                  Algorithm algorithm = Algorithm::kAuto);
  // Collective. Every rank gives chunk_of(total, size, rank) elements; out receives all of them.
  void all_gather(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                  Algorithm algorithm = Algorithm::kAuto);
  // Collective. in holds the full vector; out receives this rank's chunk of the reduction.
  void reduce_scatter(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                      ReduceOp op, Algorithm algorithm = Algorithm::kAuto);
  // Collective. out of `root` receives the reduction; the others' is not touched and may be empty.
  void reduce(std::span<const std::byte> in, std::span<std::byte> out, DType type, ReduceOp op,
              int root, Algorithm algorithm = Algorithm::kAuto);
  // Collective. Every rank gives chunk_of(total, size, rank) elements; out of `root` receives all
  // of them, the others' is not touched and may be empty.
  void gather(std::span<const std::byte> in, std::span<std::byte> out, DType type, int root,
              Algorithm algorithm = Algorithm::kAuto);
  // Collective. The inverse: in of `root` holds the full vector, the others' is not read.
  void scatter(std::span<const std::byte> in, std::span<std::byte> out, DType type, int root,
               Algorithm algorithm = Algorithm::kAuto);
  // Collective. Part chunk_of(count, size, i) of in goes to rank i, whose out holds what every rank
  // gave it, in rank order: size times its part. in and out do not overlap.
  void all_to_all(std::span<const std::byte> in, std::span<std::byte> out, DType type,
                  Algorithm algorithm = Algorithm::kAuto);
  // Collective. The same with parts of any length, also 0: in_counts[i] elements go to rank i, and
  // out_counts[i] come from it, which must be what rank i gives this one (else Error kFault,
  // NQD4005). Parts lie one behind the other, in rank order.
  void all_to_all_v(std::span<const std::byte> in, std::span<const std::size_t> in_counts,
                    std::span<std::byte> out, std::span<const std::size_t> out_counts, DType type,
                    Algorithm algorithm = Algorithm::kAuto);
  // Collective. data of `root` overwrites data of the others.
  void broadcast(std::span<std::byte> data, int root, Algorithm algorithm = Algorithm::kAuto);
  // Collective. Returns when every rank has called it.
  void barrier();
  // What a call of `bytes` (as cost.h counts the payload) runs: kAuto resolved, others as they are.
  // kAuto is what set_tuning's table says, where it can run here; else, and without `bytes`, direct
  // where the ranks of the group reach each other's memory, private buffers included, hierarchical
  // (all_reduce, all_gather, reduce_scatter; a short all_reduce recursive_doubling) over several
  // hosts with several ranks on one, else the first that cost.h names. gather and scatter are not
  // tuned: a rank does not know their payload. Where the system forbids reading private memory,
  // kDirect works on shared buffers alone (else NQD2102). Throws NQD2102 for a pair that nqd does
  // not run.
  virtual Algorithm chosen(Collective collective, Algorithm algorithm,
                           std::optional<std::uint64_t> bytes = {}) const = 0;
  // Whether kDirect runs on SharedBuffers here: the ranks of the group reach each other's.
  virtual bool shares_memory() const = 0;
  // Crossover points for kAuto (collectives/tuning.h), equal on all ranks; null (the default) for
  // none. Later splits inherit them.
  virtual void set_tuning(std::shared_ptr<const Tuning> tuning) = 0;
  // Blocking point to point; sizes must agree (else Error kFault at the receiver).
  virtual void send(std::span<const std::byte> data, int to) = 0;
  virtual void receive(std::span<std::byte> data, int from) = 0;
  // Both at once, as neighbours in a ring need it; -1 is nobody. `algorithm` is kAuto, or kLibrary
  // for MPI_Sendrecv (MPI_Send or MPI_Recv where one side is nobody); another throws NQD2102.
  virtual void send_receive(std::span<const std::byte> data, int to, std::span<std::byte> received,
                            int from, Algorithm algorithm = Algorithm::kAuto) = 0;
  // Starts to send and returns at once: `data` stays as it is until the handle is complete. Runs in
  // issue order on this communicator's worker, like started collectives.
  virtual Work send_async(std::span<const std::byte> data, int to) = 0;

  // Collective, in place.
  Work all_reduce_async(std::span<std::byte> data, DType type, ReduceOp op,
                        Algorithm algorithm = Algorithm::kAuto);

  // Collective. Ranks of equal color form a new communicator ordered by (key, rank); color < 0
  // returns null. `group` names its traffic.
  virtual std::unique_ptr<Communicator> split(int color, int key, const std::string& group) = 0;
  // Collective. Makes ready what the first messages between ranks would else wait for on the host,
  // so that from then on no call of one rank waits there for another's where the backend lets calls
  // run by themselves. Counts as no traffic.
  virtual void connect() {}

  // Counts of this rank since the last reset, this communicator alone (not its splits).
  virtual Traffic traffic() const = 0;
  virtual void reset_traffic() = 0;
  // Where scratch buffers are counted (tag kCommunication); null (the default) counts nowhere.
  virtual void set_ledger(MemoryLedger* ledger) = 0;
  // How long any one wait may take. Default 60 s.
  virtual void set_deadline(std::chrono::milliseconds deadline) = 0;
};

// Ranks of the communicator on the calling rank's host, itself included.
int ranks_on_this_host(const Communicator& communicator);

// Typed views for callers that hold floats.
template <typename T>
std::span<const std::byte> bytes_of(std::span<const T> values) {
  return std::as_bytes(values);
}
template <typename T>
std::span<std::byte> writable_bytes_of(std::span<T> values) {
  return std::as_writable_bytes(values);
}

}  // namespace nqd::collectives
