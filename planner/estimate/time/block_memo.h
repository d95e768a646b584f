// Block times that were asked for before: open addressing over the key's hash, no allocation for a
// key that is known.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/estimate/time/block_time.h"

namespace nqd::planner {

class BlockMemo {
 public:
  // `kinds` times a key.
  explicit BlockMemo(std::size_t kinds) : kinds_(kinds), slots_(kFirstSlots, kFree) {}

  // The times of all kinds, priced by `pricer` the first time. Valid until the next call.
  const BlockTime* find(const BlockKey& key, const BlockPricer& pricer);

 private:
  static constexpr std::size_t kFirstSlots = 64;  // a power of two

  struct Slot {
    BlockKey key;  // tp 0 = free
    std::uint32_t index = 0;
  };
  Slot& slot_of(const BlockKey& key);
  void grow();

  static constexpr Slot kFree = {.key = {.tp = 0}, .index = 0};

  std::size_t kinds_;
  std::size_t used_ = 0;
  std::vector<Slot> slots_;
  std::vector<BlockTime> times_;
};

}  // namespace nqd::planner
