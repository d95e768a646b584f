// Block times that were asked for before: open addressing over a packed key, no allocation for a
// key that is known.
#pragma once

#include <cstdint>
#include <vector>

#include "planner/estimate/time/block_time.h"

namespace nqd::planner {

class BlockMemo {
 public:
  // `kinds` times a key.
  explicit BlockMemo(std::size_t kinds) : kinds_(kinds), slots_(kFirstSlots) {}

  // The times of all kinds, priced by `pricer` the first time. Valid until the next call.
  const BlockTime* find(const BlockKey& key, const BlockPricer& pricer);

 private:
  static constexpr std::size_t kFirstSlots = 64;  // a power of two

  struct Slot {
    std::uint64_t key = 0;  // 0 = free
    std::uint32_t index = 0;
  };
  static std::uint64_t pack(const BlockKey& key);
  Slot& slot_of(std::uint64_t key);
  void grow();

  std::size_t kinds_;
  std::size_t used_ = 0;
  std::vector<Slot> slots_;
  std::vector<BlockTime> times_;
};

}  // namespace nqd::planner
