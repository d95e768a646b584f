#include "collectives/shm/channel.h"

namespace nqd::collectives::shm {

Cell* Channel::free_cell() {
  const std::uint32_t tail = pushed();
  if (tail - head_.load(std::memory_order_acquire) == kCells) {
    // Sequentially consistent here and in pop(): either this sees the room, or pop() the flag.
    sender_waits_.store(1);
    if (tail - head_.load() == kCells) return nullptr;
  }
  return &cells_[tail % kCells];
}

const Cell* Channel::front() const {
  const std::uint32_t head = head_.load(std::memory_order_relaxed);
  return tail_.load(std::memory_order_acquire) == head ? nullptr : &cells_[head % kCells];
}

bool Channel::pop() {
  head_.store(head_.load(std::memory_order_relaxed) + 1);
  if (sender_waits_.load() == 0) return false;
  sender_waits_.store(0);
  return true;
}

}  // namespace nqd::collectives::shm
