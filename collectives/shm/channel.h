// The queue through which one rank's messages reach another: a ring of cells in memory that both
// map, written by the sender alone and emptied by the receiver alone, in order. Zero-filled memory
// is an empty channel.
#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>

#include "collectives/shared/shared_buffer.h"
#include "collectives/types.h"

namespace nqd::collectives::shm {

inline constexpr std::size_t kCellBytes = std::size_t{32} << 10;
inline constexpr std::uint32_t kCells = 8;

// A message, or a part of one: long ones that cannot be read in place fill several cells.
struct Cell {
  enum class Kind : std::uint8_t {
    kCopy,   // its next part_bytes bytes are in `data`
    kPlace,  // all of it is at `place`, where the sender keeps it until the cell is taken
  };
  std::int32_t tag = 0;
  Kind kind = Kind::kCopy;
  Collective collective = Collective::kBarrier;  // the sender's call, for errors
  std::uint64_t sequence = 0;
  std::uint64_t message_bytes = 0;
  std::uint64_t part_bytes = 0;
  BufferPlace place;
  std::uint32_t freed = 0;  // freed_shared_buffers() of the sender
  alignas(64) std::array<std::byte, kCellBytes> data;
};

class Channel {
 public:
  // For the sender. The cell to fill next; null while all are full, and then pop() of the receiver
  // says so once there is room.
  Cell* free_cell();
  // Hands over the cell that free_cell() gave.
  void push() { tail_.store(tail_.load(std::memory_order_relaxed) + 1, std::memory_order_release); }
  // Cells handed over so far; counts wrap.
  std::uint32_t pushed() const { return tail_.load(std::memory_order_relaxed); }
  // Whether the receiver has taken the first `count` cells.
  bool has_taken(std::uint32_t count) const {
    return static_cast<std::int32_t>(head_.load(std::memory_order_acquire) - count) >= 0;
  }

  // For the receiver. The oldest full cell, or null.
  const Cell* front() const;
  // Frees that cell. True: the sender waits for room.
  bool pop();

 private:
  alignas(64) std::atomic<std::uint32_t> tail_{0};
  alignas(64) std::atomic<std::uint32_t> head_{0};
  alignas(64) std::atomic<std::uint32_t> sender_waits_{0};
  std::array<Cell, kCells> cells_;
};

}  // namespace nqd::collectives::shm
