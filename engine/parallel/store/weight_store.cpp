#include "engine/parallel/store/weight_store.h"

#include <string>
#include <utility>

#include "engine/parallel/store/reductions.h"
#include "planner/layout/state_buffers.h"

namespace nqd::engine {

using collectives::Collective;
using collectives::ReduceOp;
using planner::UnitRole;

WeightStore::WeightStore(const StoreLayout& layout, const StoreMemory& memory)
    : layout_(layout),
      weights_(memory.at("weights")),
      element_(static_cast<std::int64_t>(size_bytes(layout.shape.weights))),
      arriving_(layout.size()),
      is_arriving_(layout.size()) {
  if (!layout.shape.shards_weights()) return;
  for (const UnitRole role : planner::kUnitRoles) {
    const std::string name = "gathered." + std::string(planner::name(role));
    // A unit without elements has no buffer, and is gathered at no cost.
    for (std::size_t i = 0; i < std::max<std::size_t>(memory.count(name), 1); ++i) {
      Slot slot;
      slot.role = role;
      slot.data = memory.at(name, i);
      slots_.push_back(std::move(slot));
    }
  }
}

WeightStore::Slot* WeightStore::holding(int unit) {
  for (Slot& slot : slots_) {
    if (slot.unit == unit) return &slot;
  }
  return nullptr;
}

WeightStore::Slot* WeightStore::free_for(int unit, bool even_unused) {
  const UnitRole role = layout_.units[static_cast<std::size_t>(unit)].role;
  Slot* unused = nullptr;
  for (Slot& slot : slots_) {
    if (slot.role != role) continue;
    if (slot.unit < 0) return &slot;
    if (slot.users == 0) unused = &slot;
  }
  return even_unused ? unused : nullptr;
}

void WeightStore::start(Slot& slot, int unit) {
  finish(slot);
  slot.unit = unit;
  slot.users = 0;
  const UnitPlace& at = place(unit);
  if (at.padded == 0) return;
  if (stale_ && unit == 0 && std::exchange(was_there_, true)) return;
  const auto bytes = [&](std::int64_t elements) {
    return static_cast<std::size_t>(elements * element_);
  };
  layout_.device.before_message();
  slot.work = layout_.groups.dp->start(
      {Collective::kAllGather,
       std::span<const std::byte>(weights_ + at.weights * element_, bytes(at.part)),
       std::span<std::byte>(slot.data, bytes(at.padded)), layout_.shape.weights, ReduceOp::kSum},
      store_algorithm(layout_, *layout_.groups.dp, Collective::kAllGather, bytes(at.padded)));
  slot.arriving = true;
}

void WeightStore::finish(Slot& slot) {
  if (!std::exchange(slot.arriving, false)) return;
  waited_s_ += timed_wait(slot.work);
}

const std::byte* WeightStore::acquire(int unit) {
  const int held = place(unit).reads;
  if (!layout_.shape.shards_weights()) {
    const auto index = static_cast<std::size_t>(held);
    if (is_arriving_[index]) waited_s_ += timed_wait(arriving_[index]);
    is_arriving_[index] = false;
    return weights_ + place(held).weights * element_;
  }
  Slot* slot = holding(held);
  if (slot == nullptr) {
    slot = free_for(held, true);
    if (slot == nullptr) {
      throw_misuse("unit " + layout_.units[static_cast<std::size_t>(held)].name +
                   " is acquired while every buffer of its role is in use");
    }
    start(*slot, held);
  }
  finish(*slot);
  ++slot->users;
  return slot->data;
}

void WeightStore::prefetch(int unit) {
  if (!layout_.shape.shards_weights()) return;
  const int held = place(unit).reads;
  if (holding(held) != nullptr) return;
  if (Slot* const slot = free_for(held, false)) start(*slot, held);
}

void WeightStore::release(int unit) {
  if (!layout_.shape.shards_weights()) return;
  Slot* const slot = holding(place(unit).reads);
  if (slot == nullptr || slot->users == 0) {
    throw_misuse("unit " + layout_.units[static_cast<std::size_t>(unit)].name +
                 " is released without having been acquired");
  }
  if (--slot->users == 0) slot->unit = -1;
}

void WeightStore::gather_parts() {
  if (layout_.shape.shards_weights() || layout_.shape.parts() == 1) return;
  layout_.device.before_message();
  for (std::size_t unit = 0; unit < layout_.size(); ++unit) {
    const UnitPlace& at = layout_.places[unit];
    if (!at.holds_weights() || at.padded == 0 || (stale_ && unit == 0)) continue;
    std::byte* const all = weights_ + at.weights * element_;
    const auto part = static_cast<std::size_t>(at.part * element_);
    const auto padded = static_cast<std::size_t>(at.padded * element_);
    arriving_[unit] = layout_.groups.dp->start(
        {Collective::kAllGather,
         std::span<const std::byte>(all + static_cast<std::size_t>(layout_.part) * part, part),
         std::span<std::byte>(all, padded), layout_.shape.weights, ReduceOp::kSum},
        store_algorithm(layout_, *layout_.groups.dp, Collective::kAllGather, padded));
    is_arriving_[unit] = true;
  }
}

void WeightStore::settle() {
  for (std::size_t unit = 0; unit < layout_.size(); ++unit) {
    if (is_arriving_[unit]) waited_s_ += timed_wait(arriving_[unit]);
    is_arriving_[unit] = false;
  }
  for (Slot& slot : slots_) {
    if (slot.users > 0) {
      throw_misuse("weights change while unit " +
                   layout_.units[static_cast<std::size_t>(slot.unit)].name + " is held");
    }
    finish(slot);
    slot.unit = -1;
  }
}

std::byte* WeightStore::kept(int unit, std::int64_t begin) const {
  return weights_ + (place(unit).weights + begin - kept_begin(unit)) * element_;
}

std::int64_t WeightStore::kept_begin(int unit) const {
  return layout_.shape.shards_weights() ? layout_.own_begin(unit) : 0;
}

std::int64_t WeightStore::kept_end(int unit) const {
  return layout_.shape.shards_weights() ? layout_.own_end(unit) : place(unit).padded;
}

double WeightStore::take_waited_s() { return std::exchange(waited_s_, 0.0); }

}  // namespace nqd::engine
