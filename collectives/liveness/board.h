// A page of memory that the ranks of one host share: where each is, whether it lives, and the first
// fault of the world. It is an anonymous memory file, so nothing stays behind, even after SIGKILL.
//
// Any thread may call anything; a slot is written by its own process alone.
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <optional>
#include <string>

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
  // How another process of this host finds the board.
  struct Address {
    std::int64_t pid = 0;
    std::int32_t descriptor = -1;
    std::uint32_t slots = 0;
    std::uint64_t nonce = 0;
  };

  // A board with `slots` slots. Where the system has no memory files it is this process's alone,
  // and nobody can attach. Throws std::bad_alloc.
  static std::unique_ptr<Board> create(std::uint32_t slots);
  // The board of another process. Null when it cannot be reached (another PID namespace, say) or is
  // not the one that `address` describes.
  static std::unique_ptr<Board> attach(const Address& address);
  ~Board();
  Board(const Board&) = delete;
  Board& operator=(const Board&) = delete;

  const Address& address() const { return address_; }
  std::uint32_t slots() const { return address_.slots; }
  // Call when every process has attached: the board then lives as long as its mappings.
  void close_descriptor();

  // The own slot.
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

  // Keeps `fault` if it is the first. Long texts are cut.
  void record_fault(const Fault& fault);
  bool has_fault() const;
  std::optional<Fault> fault() const;

 private:
  struct Layout;
  Board(const Address& address, Layout* layout) : address_(address), layout_(layout) {}

  Address address_;
  Layout* layout_;
  std::mutex stage_mutex_;  // several communicators of one process publish
};

}  // namespace nqd::collectives
