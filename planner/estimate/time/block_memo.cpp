#include "planner/estimate/time/block_memo.h"

#include <utility>

namespace nqd::planner {

namespace {

std::uint64_t hash_of(const BlockKey& key) {
  std::uint64_t hash = 0;
  for (const std::int32_t part :
       {key.tp, key.cp, key.ep, key.expert_stride, key.micro_batch_size,
        static_cast<std::int32_t>(key.recompute) * 2 + (key.sequence_parallel ? 1 : 0)}) {
    hash = (hash ^ static_cast<std::uint32_t>(part)) * 0x9E3779B97F4A7C15ULL;
  }
  return hash >> 32;
}

}  // namespace

BlockMemo::Slot& BlockMemo::slot_of(const BlockKey& key) {
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash_of(key) & mask;
  while (slots_[at].key.tp != 0 && slots_[at].key != key) at = (at + 1) & mask;
  return slots_[at];
}

void BlockMemo::grow() {
  std::vector<Slot> old(slots_.size() * 2, kFree);
  std::swap(old, slots_);
  for (const Slot& slot : old) {
    if (slot.key.tp != 0) slot_of(slot.key) = slot;
  }
}

const BlockTime* BlockMemo::find(const BlockKey& key, const BlockPricer& pricer) {
  Slot* slot = &slot_of(key);
  if (slot->key.tp == 0) {
    if (2 * (used_ + 1) > slots_.size()) {
      grow();
      slot = &slot_of(key);
    }
    *slot = {key, static_cast<std::uint32_t>(used_++)};
    times_.resize(used_ * kinds_);
    pricer.price(key, &times_[slot->index * kinds_]);
  }
  return &times_[slot->index * kinds_];
}

}  // namespace nqd::planner
