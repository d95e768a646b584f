// The buffers of planner::state_buffers(), allocated once; but for the scratch that it lists, which
// is allocated where it is used.
#pragma once

#include <cstddef>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "base/ledger.h"
#include "engine/device/device.h"
#include "planner/layout/state_buffers.h"

namespace nqd::engine {

class StoreMemory {
 public:
  // Of `device`, which must outlive it, as the ledger must; null counts nothing. Only what the list
  // keeps for copies is in memory of the host.
  StoreMemory(const std::vector<planner::StateBuffer>& list, MemoryLedger* ledger, Device& device);

  // How many of that name there are: 0 for one that the list leaves out.
  std::size_t count(const std::string& name) const;
  // Zero-filled at first. Null for a buffer that the list leaves out.
  std::byte* at(const std::string& name, std::size_t index = 0) const;
  template <typename T>
  T* as(const std::string& name, std::size_t index = 0) const {
    return reinterpret_cast<T*>(at(name, index));
  }

 private:
  std::vector<std::unique_ptr<DeviceMemory>> blocks_;
  std::vector<Buffer> on_host_;
  std::map<std::string, std::vector<std::byte*>> by_name_;
};

}  // namespace nqd::engine
