#include "collectives/nccl/sessions.h"

#include <algorithm>

namespace nqd::collectives {

NcclSessions::~NcclSessions() {
  while (!blocks_.empty()) release(blocks_.begin()->first);
}

void NcclSessions::add(NcclSession& session) {
  all_.push_back(&session);
  for (auto& [memory, block] : blocks_) make_known(session, memory, block);
}

void NcclSessions::remove(NcclSession& session) noexcept {
  std::erase(all_, &session);
  for (auto& [memory, block] : blocks_) forget(session, block);
}

void NcclSessions::look() {
  for (NcclSession* const session : all_) session->look();
}

void NcclSessions::abandon() noexcept {
  for (NcclSession* const session : all_) session->abandon();
}

double NcclSessions::take_stood_s(std::string_view group) {
  double stood_s = 0;
  for (NcclSession* const session : all_) {
    if (session->place().group == group) stood_s += session->take_stood_s();
  }
  return stood_s;
}

std::byte* NcclSessions::allocate(std::size_t bytes) {
  std::byte* memory = nullptr;
  if (nccl_.allocate(memory, bytes) != NcclResult::kSuccess) return nullptr;
  Block& block = blocks_[memory];
  block.bytes = bytes;
  for (NcclSession* const session : all_) make_known(*session, memory, block);
  return memory;
}

void NcclSessions::release(std::byte* memory) noexcept {
  const auto found = blocks_.find(memory);
  if (found == blocks_.end()) return;
  for (NcclSession* const session : all_) forget(*session, found->second);
  nccl_.release(memory);
  blocks_.erase(found);
}

// Where a communicator does not take it, NCCL copies, as it does for any memory.
void NcclSessions::make_known(NcclSession& session, std::byte* memory, Block& block) {
  void* handle = nullptr;
  if (nccl_.register_buffer(session.handle(), memory, block.bytes, handle) ==
      NcclResult::kSuccess) {
    block.handles[&session] = handle;
  }
}

void NcclSessions::forget(NcclSession& session, Block& block) noexcept {
  const auto found = block.handles.find(&session);
  if (found == block.handles.end()) return;
  // An aborted communicator has dropped its registrations.
  if (session.handle() != nullptr) nccl_.deregister_buffer(session.handle(), found->second);
  block.handles.erase(found);
}

}  // namespace nqd::collectives
