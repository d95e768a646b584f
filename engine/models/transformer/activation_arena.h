// The buffers of planner::activation_buffers(), allocated once.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include "base/ledger.h"
#include "engine/device/device.h"
#include "planner/layout/activation_buffers.h"

namespace nqd::engine {

// Two blocks of device memory, private and shared, in which every buffer begins on a cache line.
// The ledger is told the bytes of each buffer under its tag, without the gaps between them, and
// must outlive the arena, as the device must; null counts nothing.
class ActivationArena {
 public:
  ActivationArena(const std::vector<planner::ActivationBuffer>& buffers, MemoryLedger* ledger,
                  Device& device);
  ~ActivationArena();
  ActivationArena(const ActivationArena&) = delete;
  ActivationArena& operator=(const ActivationArena&) = delete;

  bool has(std::string_view name) const { return places_.find(name) != places_.end(); }
  // Throw std::out_of_range for a name that is not in the list.
  std::byte* at(std::string_view name) const { return place(name).data; }
  std::int64_t bytes(std::string_view name) const { return place(name).bytes; }

 private:
  struct Place {
    std::byte* data = nullptr;
    std::int64_t bytes = 0;
    MemoryTag tag = MemoryTag::kActivations;
  };
  const Place& place(std::string_view name) const;

  std::map<std::string, Place, std::less<>> places_;
  std::unique_ptr<DeviceMemory> own_;
  std::unique_ptr<DeviceMemory> shared_;
  MemoryLedger* ledger_;
};

}  // namespace nqd::engine
