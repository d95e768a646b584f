#include "planner/estimate/time/block_memo.h"

#include <utility>

namespace nqd::planner {

// tp, ep and cp are at most 2^20 ranks together; no two keys that a mesh allows pack alike.
std::uint64_t BlockMemo::pack(const BlockKey& key) {
  std::uint64_t packed = static_cast<std::uint32_t>(key.tp);
  packed = packed * 16384 + static_cast<std::uint32_t>(key.cp);
  packed = packed * 16384 + static_cast<std::uint32_t>(key.ep);
  packed = packed * 65536 + static_cast<std::uint32_t>(key.micro_batch_size);
  return packed * 8 + static_cast<std::uint64_t>(key.recompute) * 2 +
         (key.sequence_parallel ? 1 : 0);
}

BlockMemo::Slot& BlockMemo::slot_of(std::uint64_t key) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = (key * 0x9E3779B97F4A7C15ULL >> 32) & mask;
  while (slots_[at].key != 0 && slots_[at].key != key) at = (at + 1) & mask;
  return slots_[at];
}

void BlockMemo::grow() {
  std::vector<Slot> old(slots_.size() * 2);
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.key != 0) slot_of(slot.key) = slot;
  }
}

const BlockTime* BlockMemo::find(const BlockKey& key, const BlockPricer& pricer) {
  const std::uint64_t packed = pack(key);
  Slot* slot = &slot_of(packed);
  if (slot->key == 0) {
    if (2 * (used_ + 1) > slots_.size()) {
      grow();
      slot = &slot_of(packed);
    }
    *slot = {packed, static_cast<std::uint32_t>(used_++)};
    times_.resize(used_ * kinds_);
    pricer.price(key, &times_[slot->index * kinds_]);
  }
  return &times_[slot->index * kinds_];
}

}  // namespace nqd::planner
