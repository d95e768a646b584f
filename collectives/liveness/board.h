// A page of memory that the ranks of one host share: where each is, whether it lives, and the first
// fault of the world.
//
// Any thread may call anything; a slot is written by its own process alone.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "base/host.h"
#include "collectives/shared/segment.h"
#include "collectives/stage.h"

namespace nqd::collectives {

enum class RankState : std::uint32_t {
  kRunning,
  kBodyEnded,   // waits for the others to end theirs
  kFinished,    // may exit at any time: nobody needs it any more
  kTerminated,  // about to die of a SIGTERM that was meant for it
  kReported,    // has reported the fault and is about to exit
};

class Board {
 public:
  using Address = Segment::Address;

  // A board with `slots` slots, in a world of `world_ranks` ranks. Where the system has no memory
  // files it is this process's alone, and nobody can attach. Throws std::bad_alloc.
  static std::unique_ptr<Board> create(std::uint32_t slots, std::uint32_t world_ranks);
  // The board of another process. Null when it cannot be reached (another PID namespace, say) or is
  // not the one that `address` describes.
  static std::unique_ptr<Board> attach(const Address& address);
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  const Address& address() const { return segment_->address(); }
  std::uint32_t slots() const;
  // Call when every process has attached: the board then lives as long as its mappings.
  void close_descriptor() { segment_->close_descriptor(); }

  // The own slot. Entering also shows which CPUs this process may use.
  void enter(std::uint32_t slot, int world_rank);
  void beat(std::uint32_t slot);
  void set_state(std::uint32_t slot, RankState state);
  void set_stage(std::uint32_t slot, const Stage& stage);

  // Every slot.
  std::int64_t pid(std::uint32_t slot) const;
  int world_rank(std::uint32_t slot) const;
  std::uint64_t heartbeat(std::uint32_t slot) const;
  RankState state(std::uint32_t slot) const;
  Stage stage(std::uint32_t slot) const;
  // Complete when every slot has been entered.
  std::vector<CpuShare> cpu_shares() const;

  // Signs of life of ranks of other hosts, counted: whichever rank of this host hears one notes it
  // here for all.
  void hear(int world_rank);
  std::uint64_t heard(int world_rank) const;

  // Keeps `fault` if it is the first. Long texts are cut.
  void record_fault(const Fault& fault);
  bool has_fault() const;
  std::optional<Fault> fault() const;

 private:
  struct Layout;
  Board(std::unique_ptr<Segment> segment, Layout* layout)
      : segment_(std::move(segment)), layout_(layout) {}

  std::unique_ptr<Segment> segment_;
  Layout* layout_;          // in it
  std::mutex stage_mutex_;  // several communicators of one process publish
};

}  // namespace nqd::collectives
