// How the ranks of one group on one host reach each other's memory in a collective: each shows the
// others its buffers, all wait for all, and then read and write them directly. Ranks are threads of
// one process or processes; a buffer is open to direct access when it is of this process, or a
// SharedBuffer; the private memory of another process can be pulled where the kernel allows it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "base/dtype.h"
#include "collectives/shared/phase.h"
#include "collectives/shared/segment.h"
#include "collectives/shared/shared_buffer.h"
#include "collectives/types.h"

namespace nqd::collectives {

// Virtual machines move, and with them the distance between their cores.
inline constexpr std::uint32_t kMeasureEvery = 64;

// What a rank says when it enters a call. All but the buffers must be equal on all ranks.
struct DirectCall {
  Collective collective = Collective::kBarrier;
  DType type = DType::kUInt8;
  ReduceOp op = ReduceOp::kSum;
  std::int32_t root = 0;
  std::uint64_t bytes = 0;  // of the full vector
  bool operator==(const DirectCall&) const = default;
};
std::string describe(const DirectCall& call);

class PeerMemory {
 public:
  struct Options {
    int rank = 0;
    int size = 1;
    // The ranks are threads of one process.
    bool one_process = false;
    // How often a wait looks before it gives its core away: 0 where ranks exceed cores.
    int spins = 0;
    // Called by a wait that lasts, with its seconds; missing() tells whom it waits for. Throws when
    // the world has failed or the deadline has passed.
    std::function<void(double waited_s)> check;
    // Memory of a rank of the group could not be read: throws when that rank is gone, which may
    // show a moment later.
    std::function<void(int rank)> unreadable;
  };

  // Bytes of the control block of `size` ranks: zero-filled memory that all of them share.
  static std::size_t control_bytes(int size);
  // Collective. Keeps `control` alive.
  PeerMemory(std::shared_ptr<Segment> control, Options options);
  ~PeerMemory();
  PeerMemory(const PeerMemory&) = delete;
  PeerMemory& operator=(const PeerMemory&) = delete;

  int rank() const { return options_.rank; }
  int size() const { return options_.size; }

  // Collective. Opens a call on `in` and `out` (either may be empty) and returns when every rank
  // has opened it. Until the call's last sync() peers may read `in`, and write `out` where the
  // algorithm says so. Throws Error (kFault, NQD4005) when ranks made different calls.
  void open(const DirectCall& call, std::span<const std::byte> in, std::span<std::byte> out);
  // Collective. Returns when every rank has called it; what they wrote is visible then.
  void sync();
  // Collective, a call of its own: every rank gives up to kDirectSmallBytes, and returns with all
  // of theirs in small(): copies that stay until the next call but one, or, where that is faster,
  // `mine` itself, which must stay as it is until close_small().
  void exchange_small(const DirectCall& call, std::span<const std::byte> mine);
  std::span<const std::byte> small(int rank) const { return smalls_[index(rank)]; }
  // Collective. Ends the call: waits for the others where some rank showed its own memory.
  void close_small();

  // Ranks of the group that have not arrived where this rank waits.
  std::vector<int> missing() const;

  // Between open() and the next open(). Whether every rank's buffers are open to every other.
  bool all_open() const { return all_open_; }
  // Null unless this rank can touch that memory in place. Never null when all_open().
  const std::byte* in(int rank) const { return views_[index(rank)].in; }
  std::byte* out(int rank) const { return views_[index(rank)].out; }
  std::size_t in_bytes(int rank) const;
  std::size_t out_bytes(int rank) const;
  // Copies from the buffer of another rank, wherever it is, from byte `offset` on.
  void read_in(int rank, std::size_t offset, std::span<std::byte> to);
  void read_out(int rank, std::size_t offset, std::span<std::byte> to);

  // Shared memory of this rank's own, to be shown as `in` or `out`; kept, and only grown.
  std::span<std::byte> staging(std::size_t bytes);

  // Whether ranks reach what the others keep in private memory, by reading it or through
  // SharedBuffers (else a call needs all_open()). The same on all ranks.
  bool can_pull() const { return can_pull_; }
  // Whether every rank reaches every other's SharedBuffers. The same on all ranks.
  bool can_share() const { return can_share_; }
  // Whether a line that one rank has just written is slow to reach another's core (they have no
  // cache in common, say): what others are to read is then better written past the caches. As
  // measured in open(), the last time after at most kMeasureEvery calls of it; ranks may differ.
  bool far_caches() const { return far_caches_; }

 private:
  struct Record;
  struct SharedRank;
  struct View {
    const std::byte* in = nullptr;
    std::byte* out = nullptr;
    std::map<std::uint64_t, std::shared_ptr<Segment>> segments;  // mapped buffers by nonce
    std::uint32_t freed = 0;                                     // of the peer, when they were
  };

  static std::size_t index(int rank) { return static_cast<std::size_t>(rank); }
  SharedRank& shared(int rank) const;
  Record& record(int rank) const;  // of this call
  void write_record(const DirectCall& call, std::span<const std::byte> in,
                    std::span<std::byte> out);
  void arrive_and_wait();
  void check_equal(const DirectCall& mine) const;
  void find_views();
  std::byte* reach(int rank, const BufferPlace& place);
  void read(int rank, const std::byte* open, const BufferPlace& place, std::size_t offset,
            std::span<std::byte> to);
  bool is_open(const BufferPlace& place) const;
  void probe();
  // Collective.
  void measure_waits();

  bool shows_small(const BufferPlace& place) const;
  void find_smalls();
  // Maps the peer's `in` of this call where that can be.
  const std::byte* reach_in(int peer);

  const std::shared_ptr<Segment> control_;
  const Options options_;
  std::vector<View> views_;
  std::vector<std::span<const std::byte>> smalls_;  // of this call
  bool small_shown_ = false;                        // some of them are a rank's own memory
  SharedBuffer staging_;
  std::uint32_t phase_ = 0;  // this rank's
  std::uint32_t calls_ = 0;
  std::uint32_t opens_ = 0;
  bool all_open_ = false;
  bool can_share_ = false;
  bool can_pull_ = false;
  bool crowded_ = false;  // some rank may have to wait for a core; the same on all
  bool far_caches_ = false;
};

}  // namespace nqd::collectives
