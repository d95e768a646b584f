// Point-to-point messages between the ranks of one group: all that a backend has to provide. The
// algorithms in collectives/algorithms/ are written once over it.
//
// One thread at a time may use a transport. A wait ends by completion, by the deadline
// (TimeoutError) or by a fault of any rank of the world (PeerLostError); after either error the
// transport only throws.
#pragma once

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <exception>
#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "base/dtype.h"
#include "collectives/communicator.h"
#include "collectives/cost.h"
#include "collectives/host_map.h"
#include "collectives/shared/peer_memory.h"
#include "collectives/stage.h"
#include "collectives/types.h"

namespace nqd::collectives {

struct CollectiveCall;

class Transport {
 public:
  explicit Transport(std::string group) : group_(std::move(group)) {}
  virtual ~Transport() = default;
  Transport(const Transport&) = delete;
  Transport& operator=(const Transport&) = delete;

  virtual int rank() const = 0;
  virtual int size() const = 0;
  virtual std::string_view backend() const = 0;
  virtual int world_rank(int rank) const = 0;
  virtual const std::string& host(int rank) const = 0;
  const std::string& group() const { return group_; }
  // The call that this rank is in, or was in last.
  const Stage& stage() const { return stage_; }

  // Opens a call: gives it a sequence number and a tag of its own, so that messages of calls that
  // ranks issue in different orders never match. Every rank of the group must open the same
  // collectives in the same order; kSendRecv has a sequence of its own.
  void begin(Collective collective);
  // Closes the call that succeeded; a failed one stays open, for the reports of its peers.
  void end();
  // A call has failed on this rank alone, so that its peers' messages may be anywhere: from here on
  // begin() throws the same.
  void break_off(std::exception_ptr error) { broken_ = std::move(error); }

  // Posts a message and counts it: the only source of traffic counts. The data must stay untouched
  // until wait() returns.
  void send(std::span<const std::byte> data, int to);
  // Posts a further piece of the message sent last to that rank: counts its bytes alone.
  void send_more(std::span<const std::byte> data, int to);
  // Posts a receive of exactly data.size() bytes.
  void receive(std::span<std::byte> data, int from);
  // Counts what a collective moved without messages.
  void count(const RankTraffic& moved);
  // Completes everything posted since the last wait. A message of another length than its receive
  // is Error (kFault, NQD4005).
  void wait();

  // Collective, uncounted: every rank's `mine` (equal lengths), in rank order.
  virtual std::vector<std::byte> gather_control(std::span<const std::byte> mine) = 0;
  // Collective over `members` (ranks of this group, in the order of their new ranks), which contain
  // this rank; several disjoint groups may form in one call.
  virtual std::unique_ptr<Transport> subgroup(const std::vector<int>& members,
                                              const std::string& group) = 0;
  // The library's own blocking collective, and its own blocking messages (-1 is nobody), uncounted.
  // Throw Error (kUsage, NQD2102) where there is none.
  virtual void library_collective(const CollectiveCall& call);
  virtual void library_exchange(std::span<const std::byte> data, int to,
                                std::span<std::byte> received, int from);
  // Null unless all ranks of the group reach each other's memory (one host, one process or shared
  // memory).
  virtual PeerMemory* peer_memory() { return nullptr; }
  // For the call that is open: the memory of the ranks on this rank's host, which are
  // hosts().members() of it, in that order. Null where they do not reach it.
  virtual PeerMemory* host_memory() { return peer_memory(); }
  // Where the ranks are. The first call must have returned before two threads call it.
  const HostMap& hosts() const;
  // The caller of the communicator has received the error of a fault and will report it.
  virtual void acknowledge_fault() {}
  // For a transport that does part of its work through this one: makes the call and the deadline of
  // `outer` this one's, and shows them to the peers.
  void follow(const Transport& outer);

  Traffic traffic() const;
  void reset_traffic() { counts_.clear(); }
  std::chrono::milliseconds deadline() const { return deadline_; }
  void set_deadline(std::chrono::milliseconds deadline) { deadline_ = deadline; }

 protected:
  // Throws Error (kFault, NQD4005) for a message of `got` bytes.
  [[noreturn]] void throw_wrong_length(int from, const std::string& got,
                                       std::size_t expected) const;

 private:
  // Throws when the world has already failed.
  virtual void do_check() = 0;
  // Shows stage() to the peers.
  virtual void do_publish() = 0;
  virtual void do_send(std::span<const std::byte> data, int to, int tag) = 0;
  virtual void do_receive(std::span<std::byte> data, int from, int tag) = 0;
  virtual void do_wait() = 0;

  std::string group_;
  std::exception_ptr broken_;
  std::chrono::milliseconds deadline_{60'000};
  Stage stage_;
  int tag_ = 0;
  std::uint64_t collective_calls_ = 0;
  std::uint64_t point_to_point_calls_ = 0;
  std::map<Collective, TrafficCount> counts_;
  mutable std::optional<HostMap> hosts_;
};

// Tags: point to point, control exchanges, then collectives by sequence number and collective, so
// that ranks in different calls never take each other's messages. MPI promises tags up to 32767.
inline constexpr int kPointToPointTag = 0;
inline constexpr int kControlTag = 1;
inline constexpr int kFirstCollectiveTag = 2;
inline constexpr int kTagsPerCall = 16;  // more than there are collectives
inline constexpr int kTaggedCalls = 2000;

}  // namespace nqd::collectives
