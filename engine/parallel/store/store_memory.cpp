#include "engine/parallel/store/store_memory.h"

namespace nqd::engine {

StoreMemory::StoreMemory(const std::vector<planner::StateBuffer>& list, MemoryLedger* ledger,
                         Device& device) {
  for (const planner::StateBuffer& buffer : list) {
    if (buffer.name == planner::kPartialSums) continue;
    for (std::int64_t i = 0; i < buffer.count; ++i) {
      const auto bytes = static_cast<std::size_t>(buffer.bytes);
      if (buffer.name == planner::kSnapshot) {
        by_name_[buffer.name].push_back(on_host_.emplace_back(ledger, buffer.tag, bytes).data());
        continue;
      }
      const Reach reach = buffer.shared ? Reach::kShared : Reach::kOwn;
      by_name_[buffer.name].push_back(
          blocks_.emplace_back(device.allocate(ledger, buffer.tag, bytes, reach))->data());
    }
  }
}

std::size_t StoreMemory::count(const std::string& name) const {
  const auto found = by_name_.find(name);
  return found == by_name_.end() ? 0 : found->second.size();
}

std::byte* StoreMemory::at(const std::string& name, std::size_t index) const {
  return index < count(name) ? by_name_.at(name)[index] : nullptr;
}

}  // namespace nqd::engine
