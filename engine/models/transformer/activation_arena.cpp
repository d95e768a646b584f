#include "engine/models/transformer/activation_arena.h"

#include <stdexcept>

namespace nqd::engine {
namespace {

constexpr std::int64_t kLine = 64;

std::int64_t lines(std::int64_t bytes) { return (bytes + kLine - 1) / kLine * kLine; }

}  // namespace

ActivationArena::ActivationArena(const std::vector<planner::ActivationBuffer>& buffers,
                                 MemoryLedger* ledger, Device& device)
    : ledger_(ledger) {
  std::int64_t own = 0;
  std::int64_t shared = 0;
  for (const planner::ActivationBuffer& buffer : buffers) {
    (buffer.shared ? shared : own) += lines(buffer.bytes);
  }
  const auto allocate = [&](std::int64_t bytes, Reach reach) {
    return device.allocate(nullptr, MemoryTag::kActivations, static_cast<std::size_t>(bytes),
                           reach);
  };
  own_ = allocate(own, Reach::kOwn);
  shared_ = allocate(shared, Reach::kShared);
  std::byte* next_own = own_->data();
  std::byte* next_shared = shared_->data();
  for (const planner::ActivationBuffer& buffer : buffers) {
    std::byte*& next = buffer.shared ? next_shared : next_own;
    places_.emplace(buffer.name, Place{next, buffer.bytes, buffer.tag});
    next += lines(buffer.bytes);
    if (ledger_ != nullptr) ledger_->add(buffer.tag, static_cast<std::size_t>(buffer.bytes));
  }
}

ActivationArena::~ActivationArena() {
  if (ledger_ == nullptr) return;
  for (const auto& [name, place] : places_) {
    ledger_->remove(place.tag, static_cast<std::size_t>(place.bytes));
  }
}

const ActivationArena::Place& ActivationArena::place(std::string_view name) const {
  const auto found = places_.find(name);
  if (found == places_.end()) throw std::out_of_range("no buffer " + std::string(name));
  return found->second;
}

}  // namespace nqd::engine
